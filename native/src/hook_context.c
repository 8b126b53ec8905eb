/*
 * Contexts. What is taken in one is freed with it, unasked; so what was charged for it is released.
 *
 * The primary context of a device is shared: it goes when it is reset, or with its last user. What
 * contexts cost is in hook_context_cost.c.
 *
 * Open: destroying is never refused.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "hook_context_cost.h"
#include "hook_pool.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

static _Atomic(CUcontext) primaries[HAMID_DEVICES_MAX]; /* by ordinal; NULL: not seen */

static void note_gone(CUcontext context)
{
	context_forget(context);
	if (context)
		ledger_release_owned((uintptr_t)context);
	hook_settle_pools();
}

static CUcontext current(void)
{
	CUcontext context = NULL;
	if (real.cuCtxGetCurrent)
		real.cuCtxGetCurrent(&context);
	return context;
}

HOOK_EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDestroy_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuCtxDestroy_v2(context);
	if (cr == CUDA_SUCCESS)
		note_gone(context);
	return cr;
}

HOOK_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuCtxDestroy(context);
	if (cr == CUDA_SUCCESS)
		note_gone(context);
	return cr;
}

/* Destroys it when nobody else is attached: then it is no longer anybody's current context. */
HOOK_EXPORT CUresult cuCtxDetach(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDetach)
		return CUDA_ERROR_NOT_INITIALIZED;
	const int was_current = current() == context;
	CUresult cr = real.cuCtxDetach(context);
	if (cr == CUDA_SUCCESS && was_current && current() != context)
		note_gone(context);
	return cr;
}

static bool is_active(CUdevice device)
{
	unsigned int flags;
	int is_active = 0;
	return real.cuDevicePrimaryCtxGetState &&
	       real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active;
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxRetain)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge = {.cell = LEDGER_UNCOUNTED};
	CUresult cr = is_active(device) ? CUDA_SUCCESS : context_cost_reserve(device, &charge);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuDevicePrimaryCtxRetain(context, device);
	if (cr == CUDA_SUCCESS && device >= 0 && device < HAMID_DEVICES_MAX)
		atomic_store(&primaries[device], *context);
	return context_cost_settle(cr, &charge, cr == CUDA_SUCCESS ? *context : NULL);
}

static CUcontext primary_of(CUdevice device)
{
	return device >= 0 && device < HAMID_DEVICES_MAX ? atomic_load(&primaries[device]) : NULL;
}

static CUresult released(CUresult cr, CUdevice device)
{
	if (cr == CUDA_SUCCESS && real.cuDevicePrimaryCtxGetState && !is_active(device))
		note_gone(primary_of(device));
	return cr;
}

/* Who has retained it has it still, and it costs as before. */
static CUresult was_reset(CUresult cr, CUdevice device)
{
	if (cr != CUDA_SUCCESS)
		return cr;
	note_gone(primary_of(device));
	if (primary_of(device) && is_active(device))
		context_cost_count(device, primary_of(device));
	return cr;
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxRelease_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return released(real.cuDevicePrimaryCtxRelease_v2(device), device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxRelease)
		return CUDA_ERROR_NOT_INITIALIZED;
	return released(real.cuDevicePrimaryCtxRelease(device), device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxReset_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return was_reset(real.cuDevicePrimaryCtxReset_v2(device), device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxReset)
		return CUDA_ERROR_NOT_INITIALIZED;
	return was_reset(real.cuDevicePrimaryCtxReset(device), device);
}
