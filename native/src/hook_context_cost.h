/* What a context is charged, for the hooks that make one (hook_context_cost.c). */
#pragma once

#include "context.h"
#include "ledger.h"

/* Reserve for a context on this device; CUDA_ERROR_OUT_OF_MEMORY when there is no room. */
CUresult context_cost_reserve(CUdevice ordinal, struct ledger_charge *ret_charge);

/* The driver answered `cr`, and made `context`: record, or undo. Returns `cr`. */
CUresult context_cost_settle(CUresult cr, const struct ledger_charge *charge, CUcontext context);

/* Charge a context that is there already, whatever the limit says. */
void context_cost_count(CUdevice ordinal, CUcontext context);
