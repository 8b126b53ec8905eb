/* What is asked of contexts and set in them. */
#include "context.h"

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	CUcontext of;

	SIM_ENTER();
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = context_or_current(context, &of);

	if (cr == CUDA_SUCCESS)
		*version = 3020;
	return cr;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext of)
{
	CUcontext context;

	SIM_ENTER();
	CUresult cr = context_or_current(of, &context);

	if (cr == CUDA_SUCCESS && !device)
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr == CUDA_SUCCESS)
		*device = context->device;
	return cr;
}

SIM_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	context->flags = flags;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext of, unsigned long long *id)
{
	CUcontext context;

	SIM_ENTER();
	CUresult cr = context_or_current(of, &context);

	if (cr == CUDA_SUCCESS && !id)
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr == CUDA_SUCCESS)
		*id = context->id;
	return cr;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *value, int limit)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit < 0 || limit >= CONTEXT_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = context->limits[limit];
	return CUDA_SUCCESS;
}

/* The heap for device-side malloc (2) is device memory; the stack's size depends on what runs. */
SIM_EXPORT CUresult cuCtxSetLimit(int limit, size_t value)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (limit < 0 || limit >= CONTEXT_LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (limit == 2 && value > context->limits[limit]) {
		uint64_t more = value - context->limits[limit];
		CUresult cr = sim_take(sim_device(context->device), more);

		if (cr != CUDA_SUCCESS)
			return cr;
		context->cost_bytes += more;
	}
	if (limit != 2 || value > context->limits[limit])
		context->limits[limit] = value;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetCacheConfig(int *config)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = context->cache_config;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetCacheConfig(int config)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	context->cache_config = config;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetSharedMemConfig(int *config)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = context->shared_config;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetSharedMemConfig(int config)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	context->shared_config = config;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!object_is(OBJECT_CONTEXT, peer) || peer == context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->peers & (1u << peer->device))
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= 1u << peer->device;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!object_is(OBJECT_CONTEXT, peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(context->peers & (1u << peer->device)))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->peers &= ~(1u << peer->device);
	return CUDA_SUCCESS;
}
