/*
 * What contexts cost. Each is charged what the control page says (by default nothing: then a slice is
 * what may be allocated, and contexts take room beside the slices), with its making, until it is gone. What a
 * program makes of it beyond that, by cuCtxSetLimit, is charged always: the heap of device-side
 * malloc, the buffer of printf, the stacks of all threads that can run at once.
 *
 * Limits that are lowered again stay charged: the driver does not say whether it gave anything back.
 *
 * Code is not charged: it belongs to the context's figure.
 *
 * Fails closed.
 */
#include "hook_context_cost.h"

#include <stdatomic.h>

#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

#define STACK_BYTES_FIRST 1024u
#define PRINTF_BYTES_FIRST (1u << 20)
#define HEAP_BYTES_FIRST (8u << 20)

CUresult context_cost_reserve(CUdevice ordinal, struct ledger_charge *ret_charge)
{
	struct pages_device *device;
	uint64_t limit_bytes;
	*ret_charge = (struct ledger_charge){.cell = LEDGER_UNCOUNTED};
	if (context_device(ordinal, &device) != CUDA_SUCCESS)
		return CUDA_SUCCESS; /* the driver says what is wrong */
	int r = pages_device_limit(device, &limit_bytes);
	if (r < 0)
		return CUDA_SUCCESS; /* outside; or no memory will be had, and contexts tell why */
	const uint64_t cost =
		atomic_load_explicit(&device->context_bytes, memory_order_relaxed);
	return cost ? hook_reserve(device, cost, ret_charge) : CUDA_SUCCESS;
}

CUresult context_cost_settle(CUresult cr, const struct ledger_charge *charge, CUcontext context)
{
	if (cr != CUDA_SUCCESS)
		ledger_cancel(charge);
	else /* without room to remember it, it stays counted */
		ledger_commit(charge, LEDGER_CONTEXT, (uintptr_t)context, (uintptr_t)context);
	return cr;
}

void context_cost_count(CUdevice ordinal, CUcontext context)
{
	struct ledger_charge charge;
	struct pages_device *device;
	if (context_cost_reserve(ordinal, &charge) != CUDA_SUCCESS &&
	    context_device(ordinal, &device) == CUDA_SUCCESS &&
	    ledger_open(device, &charge) == 0)
		ledger_force(&charge, atomic_load(&device->context_bytes));
	context_cost_settle(CUDA_SUCCESS, &charge, context);
}

/* Run the real `symbol`, which makes a context, with these arguments. */
#define CREATE(symbol, ...) \
	do { \
		struct ledger_charge charge; \
		if (!real_load(REAL_CUDA) || !real.symbol) \
			return CUDA_ERROR_NOT_INITIALIZED; \
		CUresult cr = context_cost_reserve(device, &charge); \
		if (cr != CUDA_SUCCESS) \
			return cr; \
		cr = real.symbol(__VA_ARGS__); \
		return context_cost_settle(cr, &charge, cr == CUDA_SUCCESS ? *context : NULL); \
	} while (0)

HOOK_EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	CREATE(cuCtxCreate, context, flags, device);
}

HOOK_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	CREATE(cuCtxCreate_v2, context, flags, device);
}

HOOK_EXPORT CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinities, int count,
				    unsigned int flags, CUdevice device)
{
	CREATE(cuCtxCreate_v3, context, affinities, count, flags, device);
}

HOOK_EXPORT CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters,
				    unsigned int flags, CUdevice device)
{
	CREATE(cuCtxCreate_v4, context, parameters, flags, device);
}

/* --- limits --- */

static uint64_t attribute(int which, CUdevice ordinal)
{
	int value = 0;
	if (!real.cuDeviceGetAttribute ||
	    real.cuDeviceGetAttribute(&value, which, ordinal) != CUDA_SUCCESS || value < 0)
		return 0;
	return (uint64_t)value;
}

static uint64_t beyond(uint64_t value, uint64_t first)
{
	return value > first ? value - first : 0;
}

/* What this value of a limit takes beyond what every context has. */
static uint64_t limit_cost(CUlimit limit, uint64_t value, CUdevice ordinal)
{
	uint64_t bytes;
	switch (limit) {
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return beyond(value, PRINTF_BYTES_FIRST);
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return beyond(value, HEAP_BYTES_FIRST);
	case CU_LIMIT_STACK_SIZE:
		if (__builtin_mul_overflow(
			    beyond(value, STACK_BYTES_FIRST),
			    attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal) *
				    attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, ordinal),
			    &bytes))
			return UINT64_MAX;
		return bytes;
	default:
		return 0;
	}
}

/* Contexts are aligned to more than there are limits. */
static uint64_t key_of(CUcontext context, CUlimit limit)
{
	return (uint64_t)(uintptr_t)context << 4 | ((uint64_t)limit & 15);
}

HOOK_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	if (!real_load(REAL_CUDA) || !real.cuCtxSetLimit)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct whereabouts here;
	if (context_here(&here) != CUDA_SUCCESS)
		return real.cuCtxSetLimit(limit, value);
	const uint64_t cost = limit_cost(limit, value, here.ordinal);
	const uint64_t key = key_of(here.context, limit);
	struct ledger_entry before;
	if (ledger_take(LEDGER_CONTEXT_LIMIT, key, &before) < 0)
		before = (struct ledger_entry){.kind = LEDGER_NONE};
	struct ledger_charge charge = {.cell = LEDGER_UNCOUNTED};
	CUresult cr = CUDA_SUCCESS;
	if (cost > before.size_bytes)
		cr = hook_reserve(here.device, cost - before.size_bytes, &charge);
	if (cr == CUDA_SUCCESS)
		cr = real.cuCtxSetLimit(limit, value);
	else
		charge.cell = LEDGER_UNCOUNTED;
	if (cr != CUDA_SUCCESS)
		ledger_cancel(&charge);
	if (cr == CUDA_SUCCESS && charge.cell != LEDGER_UNCOUNTED) {
		charge.size_bytes += before.size_bytes;
		ledger_commit(&charge, LEDGER_CONTEXT_LIMIT, key, (uintptr_t)here.context);
	} else if (before.kind != LEDGER_NONE) {
		ledger_put_back(&before);
	}
	return cr;
}
