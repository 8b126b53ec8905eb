/*
 * Memory that a call takes and a call gives back: linear, pitched, managed. A hook asks the ledger,
 * calls the driver, records.
 *
 * Managed memory is charged in full to the device that is current when it is taken, wherever its
 * pages are at the moment.
 *
 * Where the device is oversubscribed, what no longer fits into the container's share of the card is
 * given as managed memory instead, whose pages the driver keeps on the host while others are in
 * use. Its free, and every copy and kernel, take it like any other.
 *
 * Fails closed: memory that cannot be counted is not allocated. A free always reaches the driver,
 * and the driver's word is the answer.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "context.h"
#include "hook_graph.h"
#include "hook_leaving.h"
#include "hook_pool.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

/* The driver gives out whole units, and a block of one byte takes one. */
#define UNIT_BYTES 512u

static uint64_t whole_units(uint64_t size_bytes)
{
	return size_bytes > UINT64_MAX - UNIT_BYTES ?
		       UINT64_MAX :
		       (size_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

static CUresult begin(uint64_t size_bytes, struct hook_taking *ret_taking)
{
	return hook_take_begin(whole_units(size_bytes), ret_taking);
}

/* Is what cannot be had as device memory to be had as managed memory here? */
static bool may_be_managed(const struct hook_taking *taking)
{
	int is_concurrent = 0;
	return taking->here.device && ledger_is_oversubscribed(taking->here.device) &&
	       real.cuMemAllocManaged && real.cuDeviceGetAttribute &&
	       real.cuDeviceGetAttribute(&is_concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
					 taking->here.ordinal) == CUDA_SUCCESS &&
	       is_concurrent;
}

/* The driver answered `cr`: record, or undo. */
static CUresult end(const struct hook_taking *taking, CUresult cr, CUdeviceptr address)
{
	CUresult ended = hook_take_end(taking, cr, LEDGER_MEMORY, address);
	if (cr == CUDA_SUCCESS && ended != CUDA_SUCCESS)
		real.cuMemFree_v2(address);
	return ended;
}

static CUresult allocate_managed(CUdeviceptr *address, size_t size_bytes, unsigned int flags)
{
	struct hook_taking taking;
	CUresult cr = hook_take_begin_managed(whole_units(size_bytes), &taking);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuMemAllocManaged(address, size_bytes, flags);
	return end(&taking, cr, cr == CUDA_SUCCESS ? *address : 0);
}

HOOK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAlloc_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct hook_taking taking;
	CUresult cr = begin(size_bytes, &taking);
	if (cr == CUDA_SUCCESS) {
		cr = real.cuMemAlloc_v2(address, size_bytes);
		cr = end(&taking, cr, cr == CUDA_SUCCESS ? *address : 0);
	}
	if (cr == CUDA_ERROR_OUT_OF_MEMORY && may_be_managed(&taking))
		cr = allocate_managed(address, size_bytes, CU_MEM_ATTACH_GLOBAL);
	return cr;
}

HOOK_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int size_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAlloc)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct hook_taking taking;
	CUresult cr = begin(size_bytes, &taking);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuMemAlloc(address, size_bytes);
	return end(&taking, cr, cr == CUDA_SUCCESS ? *address : 0);
}

HOOK_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size_bytes, unsigned int flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocManaged)
		return CUDA_ERROR_NOT_INITIALIZED;
	return allocate_managed(address, size_bytes, flags);
}

/* Saturates: what is that large is refused. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The driver chose a pitch; what that takes is charged, or the block goes back. */
static CUresult end_pitched(struct hook_taking *taking, CUresult cr, CUdeviceptr address, uint64_t pitch,
			    uint64_t height)
{
	if (cr == CUDA_SUCCESS) {
		CUresult resized = hook_resize(&taking->charge, whole_units(times(pitch, height)));
		if (resized != CUDA_SUCCESS) {
			real.cuMemFree_v2(address);
			cr = resized;
		}
	}
	return end(taking, cr, address);
}

HOOK_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width_bytes,
					size_t height, unsigned int element_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocPitch_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct hook_taking taking;
	CUresult cr = begin(times(width_bytes, height), &taking);
	if (cr == CUDA_SUCCESS) {
		cr = real.cuMemAllocPitch_v2(address, pitch, width_bytes, height, element_bytes);
		cr = end_pitched(&taking, cr, cr == CUDA_SUCCESS ? *address : 0,
				 cr == CUDA_SUCCESS ? *pitch : 0, height);
	}
	if (cr != CUDA_ERROR_OUT_OF_MEMORY || !may_be_managed(&taking))
		return cr;
	const uint64_t row_bytes = whole_units(width_bytes);
	cr = allocate_managed(address, times(row_bytes, height), CU_MEM_ATTACH_GLOBAL);
	if (cr == CUDA_SUCCESS)
		*pitch = row_bytes;
	return cr;
}

HOOK_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch,
				     unsigned int width_bytes, unsigned int height,
				     unsigned int element_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocPitch)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct hook_taking taking;
	CUresult cr = begin(times(width_bytes, height), &taking);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuMemAllocPitch(address, pitch, width_bytes, height, element_bytes);
	return end_pitched(&taking, cr, cr == CUDA_SUCCESS ? *address : 0,
			   cr == CUDA_SUCCESS ? *pitch : 0, height);
}

/* --- giving back: any of the calls may be handed any kind of block --- */

static int take(CUdeviceptr address, struct ledger_entry *ret_entry)
{
	int r = ledger_take(LEDGER_MEMORY, address, ret_entry);
	if (r < 0 && pools_are_charged())
		r = ledger_take(LEDGER_POOLED, address, ret_entry);
	return r < 0 ? ledger_take(LEDGER_IMPORT, address, ret_entry) : r; /* a block of another's pool */
}

static CUresult settle(CUresult cr, int taken, const struct ledger_entry *entry)
{
	if (taken == 0 && cr != CUDA_SUCCESS)
		ledger_put_back(entry);
	else if (taken == 0 && entry->kind == LEDGER_POOLED)
		pools_forget(entry);
	else if (taken == 0)
		ledger_release(entry);
	hook_settle_pools();
	return cr;
}

HOOK_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFree_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	int taken = take(address, &entry);
	return settle(real.cuMemFree_v2(address), taken, &entry);
}

HOOK_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFree)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	int taken = take(address, &entry);
	return settle(real.cuMemFree(address), taken, &entry);
}

static CUresult free_in_order(CUresult (*call)(CUdeviceptr, CUstream), CUdeviceptr address,
			      CUstream stream, bool is_thread_form)
{
	struct ledger_entry entry;
	int taken = take(address, &entry);
	CUresult cr = call(address, stream);
	if (cr == CUDA_SUCCESS && taken == 0 && entry.kind == LEDGER_MEMORY) {
		hook_leave(&entry, stream, is_thread_form);
		taken = -ENOENT;
	}
	if (cr == CUDA_SUCCESS)
		hook_graph_note_free(address);
	return settle(cr, taken, &entry);
}

HOOK_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFreeAsync)
		return CUDA_ERROR_NOT_INITIALIZED;
	return free_in_order(real.cuMemFreeAsync, address, stream, false);
}

HOOK_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFreeAsync_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	return free_in_order(real.cuMemFreeAsync_ptsz, address, stream, true);
}
