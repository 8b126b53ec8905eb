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

static void note_gone(CUcontext context, uint32_t mark)
{
	context_forget(context);
	if (context)
		ledger_release_owned((uintptr_t)context, mark);
	hook_settle_pools();
}

static CUcontext current(void)
{
	CUcontext context = NULL;
	if (real.cuCtxGetCurrent)
		real.cuCtxGetCurrent(&context);
	return context;
}

static CUresult destroy(CUresult (*call)(CUcontext), CUcontext context)
{
	const uint32_t mark = ledger_mark();
	context_forget(context); /* also before: another thread may get the handle before we hear that it is free */
	CUresult cr = call(context);
	if (cr == CUDA_SUCCESS)
		note_gone(context, mark);
	return cr;
}

HOOK_EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDestroy_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return destroy(real.cuCtxDestroy_v2, context);
}

HOOK_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	return destroy(real.cuCtxDestroy, context);
}

/* Destroys it when nobody else is attached: then it is no longer anybody's current context. */
HOOK_EXPORT CUresult cuCtxDetach(CUcontext context)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxDetach)
		return CUDA_ERROR_NOT_INITIALIZED;
	const bool was_current = current() == context;
	const uint32_t mark = ledger_mark();
	CUresult cr = real.cuCtxDetach(context);
	if (cr == CUDA_SUCCESS && was_current && current() != context)
		note_gone(context, mark);
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

/* One user less: was it the last? */
static void note_left(CUdevice device, uint32_t mark)
{
	if (real.cuDevicePrimaryCtxGetState && !is_active(device))
		note_gone(primary_of(device), mark);
}

static CUresult release(CUresult (*call)(CUdevice), CUdevice device)
{
	const uint32_t mark = ledger_mark();
	CUresult cr = call(device);
	if (cr == CUDA_SUCCESS)
		note_left(device, mark);
	return cr;
}

/* Who has retained it has it still, and it costs as before. */
static CUresult reset(CUresult (*call)(CUdevice), CUdevice device)
{
	const uint32_t mark = ledger_mark();
	CUresult cr = call(device);
	if (cr != CUDA_SUCCESS)
		return cr;
	note_gone(primary_of(device), mark);
	if (primary_of(device) && is_active(device))
		context_cost_count(device, primary_of(device));
	return cr;
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxRelease_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return release(real.cuDevicePrimaryCtxRelease_v2, device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxRelease)
		return CUDA_ERROR_NOT_INITIALIZED;
	return release(real.cuDevicePrimaryCtxRelease, device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxReset_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return reset(real.cuDevicePrimaryCtxReset_v2, device);
}

HOOK_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDevicePrimaryCtxReset)
		return CUDA_ERROR_NOT_INITIALIZED;
	return reset(real.cuDevicePrimaryCtxReset, device);
}

/* --- green contexts: parts of the primary one, which they retain, and whose all that is taken in them is --- */

static void note_green(CUgreenCtx green, CUdevice device, bool was_active)
{
	CUcontext primary = primary_of(device), own = NULL;
	if ((!was_active || !primary) && real.cuDevicePrimaryCtxRelease_v2 && device < HAMID_DEVICES_MAX &&
	    real.cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS) {
		atomic_store(&primaries[device], primary);
		real.cuDevicePrimaryCtxRelease_v2(device);
	}
	if (real.cuCtxFromGreenCtx)
		real.cuCtxFromGreenCtx(&own, green);
	ledger_put_back(&(struct ledger_entry){.key = (uintptr_t)green,
					       .size_bytes = (uint64_t)device,
					       .owner = (uintptr_t)own,
					       .kind = LEDGER_GREEN});
}

HOOK_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
				      unsigned int flags)
{
	if (!real_load(REAL_CUDA) || !real.cuGreenCtxCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge = {.cell = LEDGER_UNCOUNTED};
	const bool was_active = is_active(device);
	CUresult cr = was_active ? CUDA_SUCCESS : context_cost_reserve(device, &charge);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuGreenCtxCreate(green, resources, device, flags);
	if (cr == CUDA_SUCCESS)
		note_green(*green, device, was_active);
	return context_cost_settle(cr, &charge, primary_of(device));
}

HOOK_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	if (!real_load(REAL_CUDA) || !real.cuGreenCtxDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry note;
	const bool is_known = ledger_take(LEDGER_GREEN, (uintptr_t)green, &note) == 0;
	const uint32_t mark = ledger_mark();
	CUresult cr = real.cuGreenCtxDestroy(green);
	if (is_known && cr != CUDA_SUCCESS)
		ledger_put_back(&note);
	if (!is_known || cr != CUDA_SUCCESS)
		return cr;
	const CUdevice device = (CUdevice)note.size_bytes;
	context_forget((CUcontext)(uintptr_t)note.owner);
	ledger_give_over(note.owner, (uintptr_t)primary_of(device));
	note_left(device, mark);
	return cr;
}
