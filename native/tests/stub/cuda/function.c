/* What is asked of functions and set for them. */
#include "context.h"
#include "launch.h"
#include "module.h"

CUfunction function_of(const void *handle)
{
	CUfunction function;

	if (object_is(OBJECT_FUNCTION, handle))
		return (CUfunction)handle;
	if (!object_is(OBJECT_KERNEL, handle))
		return NULL;
	return library_function((CUkernel)handle, &function) == CUDA_SUCCESS ? function : NULL;
}

static CUresult get(CUfunction function, int attribute, int *value)
{
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!value || attribute < 0 || attribute >= FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = function->attributes[attribute];
	return CUDA_SUCCESS;
}

static CUresult set(CUfunction function, int attribute, int value)
{
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute < 8 || attribute >= FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	function->attributes[attribute] = value;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
	SIM_ENTER();
	return get(function_of(function), attribute, value);
}

SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
	SIM_ENTER();
	return set(function_of(function), attribute, value);
}

SIM_EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return get(function_of(kernel), attribute, value);
}

SIM_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return set(function_of(kernel), attribute, value);
}

SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
	(void)config;
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return function_of(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
	(void)config;
	SIM_ENTER();
	return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, int config)
{
	(void)config;
	SIM_ENTER();
	return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction handle)
{
	SIM_ENTER();
	CUfunction function = function_of(handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	*module = function->module;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetName(const char **name, CUfunction handle)
{
	SIM_ENTER();
	CUfunction function = function_of(handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = function->name;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncIsLoaded(int *state, CUfunction function)
{
	SIM_ENTER();
	if (!function_of(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = 1;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncLoad(CUfunction function)
{
	SIM_ENTER();
	return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* --- occupancy: what threads per multiprocessor allow --- */

static CUresult blocks_per_sm(int *blocks, CUfunction function, int threads)
{
	if (!function_of(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = threads > 1024 ? 0 : (int)launch_blocks_per_sm((uint64_t)threads);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
								int threads, size_t shared_bytes)
{
	(void)shared_bytes;
	SIM_ENTER();
	return blocks_per_sm(blocks, function, threads);
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction function, int threads, size_t shared_bytes, unsigned int flags)
{
	(void)shared_bytes, (void)flags;
	SIM_ENTER();
	return blocks_per_sm(blocks, function, threads);
}

static CUresult best_block(int *grid, int *block, CUfunction handle, int limit)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!function_of(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid || !block)
		return CUDA_ERROR_INVALID_VALUE;
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = (int)(sim_device(context->device)->multiprocessors *
		      launch_blocks_per_sm((uint64_t)*block));
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
						     CUoccupancyB2DSize shared_of, size_t shared_bytes,
						     int limit)
{
	(void)shared_of, (void)shared_bytes;
	SIM_ENTER();
	return best_block(grid, block, function, limit);
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
							      CUfunction function,
							      CUoccupancyB2DSize shared_of,
							      size_t shared_bytes, int limit,
							      unsigned int flags)
{
	(void)shared_of, (void)shared_bytes, (void)flags;
	SIM_ENTER();
	return best_block(grid, block, function, limit);
}

SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function,
							    int blocks, int threads)
{
	(void)threads;
	SIM_ENTER();
	if (!function_of(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!bytes || blocks <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = 163840 / (size_t)blocks;
	return CUDA_SUCCESS;
}
