/* Contexts: a stack per thread, primary contexts with a count of their users. */
#include <pthread.h>
#include <stdlib.h>

#include "sim.h"

#define STACK_DEPTH 64

struct CUctx_st {
	CUdevice device;
	bool is_primary;
	int users; /* of a primary context; it is active while there are any */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primaries[SIM_DEVICES_MAX];
static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;

CUresult sim_current_device(CUdevice *ret_device)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	CUcontext current = depth ? stack[depth - 1] : NULL;
	if (!current || (current->is_primary && !current->users))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_device = current->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	CUresult cr = sim_ready();
	if (cr == CUDA_SUCCESS)
		cr = sim_injected(__func__);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	CUcontext made = calloc(1, sizeof *made);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->device = device;
	cr = cuCtxPushCurrent_v2(made);
	if (cr != CUDA_SUCCESS) {
		free(made);
		return cr;
	}
	*context = made;
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context || context->is_primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth && stack[depth - 1] == context)
		depth--;
	sim_free_context(context);
	free(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	(void)context;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context) {
		depth -= depth > 0;
		return CUDA_SUCCESS;
	}
	if (depth == 0)
		depth = 1;
	stack[depth - 1] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context || depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CUdevice current;
	CUresult cr = sim_current_device(&current);
	if (cr == CUDA_SUCCESS && device)
		*device = current;
	return cr == CUDA_SUCCESS && !device ? CUDA_ERROR_INVALID_VALUE : cr;
}

CUresult cuCtxSynchronize(void)
{
	CUdevice device;
	return sim_current_device(&device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult cr = sim_ready();
	if (cr == CUDA_SUCCESS)
		cr = sim_injected(__func__);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&mutex);
	primaries[device].device = device;
	primaries[device].is_primary = true;
	primaries[device].users++;
	pthread_mutex_unlock(&mutex);
	*context = &primaries[device];
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&mutex);
	bool was_active = primaries[device].users > 0;
	if (was_active)
		primaries[device].users--;
	bool is_last = was_active && primaries[device].users == 0;
	pthread_mutex_unlock(&mutex);
	if (is_last)
		sim_free_context(&primaries[device]);
	return was_active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_free_context(&primaries[device]);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags)
		*flags = 0;
	if (active)
		*active = primaries[device].users > 0;
	return CUDA_SUCCESS;
}
