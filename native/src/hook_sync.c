/*
 * Calls that wait. A pool gives back to its device what is above its threshold when a stream, an
 * event or a context is waited for; so the pools are looked at afterwards. Where no pool is
 * charged anything that costs a load.
 *
 * Open: these take nothing, and are never refused.
 */
#include "hook_launch.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

static CUresult settled(CUresult cr)
{
	launch_waited();
	hook_settle_pools();
	return cr;
}

HOOK_EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuStreamSynchronize)
		return CUDA_ERROR_NOT_INITIALIZED;
	return settled(real.cuStreamSynchronize(stream));
}

HOOK_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuStreamSynchronize_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	return settled(real.cuStreamSynchronize_ptsz(stream));
}

HOOK_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	if (!real_load(REAL_CUDA) || !real.cuEventSynchronize)
		return CUDA_ERROR_NOT_INITIALIZED;
	return settled(real.cuEventSynchronize(event));
}

HOOK_EXPORT CUresult cuCtxSynchronize(void)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxSynchronize)
		return CUDA_ERROR_NOT_INITIALIZED;
	return settled(real.cuCtxSynchronize());
}

HOOK_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxSynchronize_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return settled(real.cuCtxSynchronize_v2(context));
}
