/* Every way to start a kernel. */
#include "launch.h"

#include <string.h>

#include "graph.h"
#include "module.h"
#include "timeline.h"

#define THREADS_PER_SM 2048
#define BLOCKS_PER_SM 32
#define SHARED_BYTES_MAX 232448

uint64_t launch_blocks_per_sm(uint64_t threads)
{
	uint64_t blocks = THREADS_PER_SM / (threads ? threads : 1);

	return blocks > BLOCKS_PER_SM ? BLOCKS_PER_SM : blocks ? blocks : 1;
}

static uint64_t waves_of(const CUDA_KERNEL_NODE_PARAMS *launch, CUdevice device)
{
	uint64_t blocks = (uint64_t)launch->gridDimX * launch->gridDimY * launch->gridDimZ;
	uint64_t threads = (uint64_t)launch->blockDimX * launch->blockDimY * launch->blockDimZ;
	uint64_t at_once = sim_device(device)->multiprocessors * launch_blocks_per_sm(threads);

	return (blocks + at_once - 1) / at_once;
}

CUresult launch_cost(const CUDA_KERNEL_NODE_PARAMS *launch, uint64_t *ret_ns)
{
	const void *handle = launch->func ? (const void *)launch->func : (const void *)launch->kern;
	const struct CUfunc_st *function = function_of(handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	uint64_t threads = (uint64_t)launch->blockDimX * launch->blockDimY * launch->blockDimZ;
	bool is_good = launch->gridDimX && launch->gridDimY && launch->gridDimZ &&
		       launch->gridDimX <= 0x7fffffff && launch->gridDimY <= 65535 &&
		       launch->gridDimZ <= 65535 && threads > 0 && threads <= 1024 &&
		       launch->blockDimZ <= 64 && launch->sharedMemBytes <= SHARED_BYTES_MAX;

	if (!is_good)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_ns = function->fixed_ns;
	if (function->is_told_ns && launch->kernelParams) {
		memcpy(ret_ns, launch->kernelParams[0], sizeof *ret_ns);
		return CUDA_SUCCESS;
	}
	if (function->wave_ns)
		*ret_ns += function->wave_ns * waves_of(launch, function->object.context->device);
	return CUDA_SUCCESS;
}

static CUresult start(const CUDA_KERNEL_NODE_PARAMS *launch, CUstream handle, bool is_cooperative)
{
	CUstream stream;
	CUgraphNode node;
	uint64_t duration_ns;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS)
		cr = launch_cost(launch, &duration_ns);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (is_cooperative && waves_of(launch, stream->object.context->device) > 1)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	if (!stream->graph) {
		stream_submit(stream, duration_ns);
		return CUDA_SUCCESS;
	}
	cr = graph_capture_node(stream->graph, stream, CU_GRAPH_NODE_TYPE_KERNEL, &node);
	if (cr == CUDA_SUCCESS) {
		node->kernel = *launch;
		node->duration_ns = duration_ns;
	}
	return cr;
}

SIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
				   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
				   void **params, void **extra)
{
	SIM_ENTER();
	return start(&(CUDA_KERNEL_NODE_PARAMS){.func = function,
						.gridDimX = grid_x,
						.gridDimY = grid_y,
						.gridDimZ = grid_z,
						.blockDimX = block_x,
						.blockDimY = block_y,
						.blockDimZ = block_z,
						.sharedMemBytes = shared_bytes,
						.kernelParams = params,
						.extra = extra},
		     stream, false);
}

SIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
					      unsigned int grid_y, unsigned int grid_z,
					      unsigned int block_x, unsigned int block_y,
					      unsigned int block_z, unsigned int shared_bytes,
					      CUstream stream, void **params)
{
	SIM_ENTER();
	return start(&(CUDA_KERNEL_NODE_PARAMS){.func = function,
						.gridDimX = grid_x,
						.gridDimY = grid_y,
						.gridDimZ = grid_z,
						.blockDimX = block_x,
						.blockDimY = block_y,
						.blockDimZ = block_z,
						.sharedMemBytes = shared_bytes,
						.kernelParams = params},
		     stream, true);
}

SIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
				     void **params, void **extra)
{
	bool is_cooperative = false;

	SIM_ENTER();
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			is_cooperative = config->attrs[i].value.cooperative;
	return start(&(CUDA_KERNEL_NODE_PARAMS){.func = function,
						.gridDimX = config->gridDimX,
						.gridDimY = config->gridDimY,
						.gridDimZ = config->gridDimZ,
						.blockDimX = config->blockDimX,
						.blockDimY = config->blockDimY,
						.blockDimZ = config->blockDimZ,
						.sharedMemBytes = config->sharedMemBytes,
						.kernelParams = params,
						.extra = extra},
		     config->hStream, is_cooperative);
}

SIM_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches,
							 unsigned int count, unsigned int flags)
{
	SIM_ENTER();
	if (!launches || count == 0 || count > (unsigned int)sim_device_count() || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		const CUDA_LAUNCH_PARAMS *one = &launches[i];
		CUresult cr = start(&(CUDA_KERNEL_NODE_PARAMS){.func = one->function,
							       .gridDimX = one->gridDimX,
							       .gridDimY = one->gridDimY,
							       .gridDimZ = one->gridDimZ,
							       .blockDimX = one->blockDimX,
							       .blockDimY = one->blockDimY,
							       .blockDimZ = one->blockDimZ,
							       .sharedMemBytes = one->sharedMemBytes},
				    one->hStream, true);

		if (cr != CUDA_SUCCESS)
			return cr;
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
	CUstream stream;
	CUgraphNode node;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS && !function)
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!stream->graph)
		return callbacks_add(stream, function, data);
	cr = graph_capture_node(stream->graph, stream, CU_GRAPH_NODE_TYPE_HOST, &node);
	if (cr == CUDA_SUCCESS)
		node->host = (CUDA_HOST_NODE_PARAMS){function, data};
	return cr;
}

SIM_EXPORT CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
					unsigned int mode)
{
	(void)mode;
	return cuLaunchHostFunc(stream, function, data);
}

/* --- the launches of before CUDA 4: shape and parameters are set one by one --- */

SIM_EXPORT CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z)
{
	SIM_ENTER();
	CUfunction function = function_of(handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	function->block[0] = x;
	function->block[1] = y;
	function->block[2] = z;
	return CUDA_SUCCESS;
}

static CUresult is_function(CUfunction handle)
{
	return function_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
	(void)bytes;
	SIM_ENTER();
	return is_function(function);
}

SIM_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned int bytes)
{
	(void)bytes;
	SIM_ENTER();
	return is_function(function);
}

SIM_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned int value)
{
	(void)offset, (void)value;
	SIM_ENTER();
	return is_function(function);
}

SIM_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value)
{
	(void)offset, (void)value;
	SIM_ENTER();
	return is_function(function);
}

SIM_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int bytes)
{
	(void)offset, (void)value, (void)bytes;
	SIM_ENTER();
	return is_function(function);
}

static CUresult launch_old(CUfunction handle, int width, int height, CUstream stream)
{
	const struct CUfunc_st *function = function_of(handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	return start(&(CUDA_KERNEL_NODE_PARAMS){.func = handle,
						.gridDimX = (unsigned int)width,
						.gridDimY = (unsigned int)height,
						.gridDimZ = 1,
						.blockDimX = (unsigned int)function->block[0],
						.blockDimY = (unsigned int)function->block[1],
						.blockDimZ = (unsigned int)function->block[2]},
		     stream, false);
}

SIM_EXPORT CUresult cuLaunch(CUfunction function)
{
	SIM_ENTER();
	return launch_old(function, 1, 1, NULL);
}

SIM_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	SIM_ENTER();
	return launch_old(function, width, height, NULL);
}

SIM_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	SIM_ENTER();
	return launch_old(function, width, height, stream);
}
