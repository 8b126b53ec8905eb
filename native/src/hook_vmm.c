/*
 * Physical memory with handles, and its mappings. Charged to the device that the request names (no
 * context needs to be), once, for as long as a handle or a mapping keeps it.
 *
 * Whoever made it is charged: an imported handle is another's memory, of this container or of
 * another, and maps without a charge. Memory of the host is not counted.
 *
 * Fails closed.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "context.h"
#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

static _Atomic bool is_anything_counted;

HOOK_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size_bytes,
				 const CUmemAllocationProp *properties, unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct pages_device *device;
	if (!handle || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    context_device(properties->location.id, &device) != CUDA_SUCCESS)
		return real.cuMemCreate(handle, size_bytes, properties, flags);
	struct ledger_charge charge;
	CUresult cr = hook_reserve(device, size_bytes, &charge);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = real.cuMemCreate(handle, size_bytes, properties, flags);
	if (cr != CUDA_SUCCESS) {
		ledger_cancel(&charge);
		return cr;
	}
	int r = ledger_commit(&charge, LEDGER_HANDLE, *handle, 0);
	if (r < 0) {
		real.cuMemRelease(*handle);
		ledger_cancel(&charge);
	}
	if (charge.cell != LEDGER_UNCOUNTED)
		atomic_store_explicit(&is_anything_counted, true, memory_order_relaxed);
	return cu_from_errno(r);
}

/*
 * One reference less to a handle. A second name for memory (owner: the first) holds one reference
 * of the first's.
 */
static void let_go(uint64_t handle)
{
	struct ledger_entry entry;
	while (handle && ledger_let_go(LEDGER_HANDLE, handle, &entry) == 0) {
		if (entry.count > 0)
			return;
		if (!entry.owner)
			ledger_release(&entry);
		handle = entry.owner;
	}
}

HOOK_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	if (!real_load(REAL_CUDA) || !real.cuMemRelease)
		return CUDA_ERROR_NOT_INITIALIZED;
	/*
	 * Taken out before, for the driver may give the handle to another thread at once; but what
	 * it keeps is charged until it said that it let go.
	 */
	struct ledger_entry entry;
	int taken = ledger_let_go(LEDGER_HANDLE, handle, &entry);
	CUresult cr = real.cuMemRelease(handle);
	if (taken < 0)
		return cr;
	if (cr != CUDA_SUCCESS) {
		if (entry.count == 0)
			ledger_put_back(&entry);
		else
			ledger_hold(LEDGER_HANDLE, handle);
	} else if (entry.count == 0 && entry.owner) {
		let_go(entry.owner);
	} else if (entry.count == 0) {
		ledger_release(&entry);
	}
	return cr;
}

HOOK_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset,
			      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemMap)
		return CUDA_ERROR_NOT_INITIALIZED;
	const bool is_counted = ledger_hold(LEDGER_HANDLE, handle) == 0;
	CUresult cr = real.cuMemMap(address, size_bytes, offset, handle, flags);
	if (cr != CUDA_SUCCESS) {
		if (is_counted)
			let_go(handle);
		return cr;
	}
	/* Others' memory is noted too, so that a range with both can be walked. */
	if (!is_counted && !atomic_load_explicit(&is_anything_counted, memory_order_relaxed))
		return cr;
	const struct ledger_charge extent = {.size_bytes = size_bytes, .cell = 0};
	int r = ledger_commit(&extent, LEDGER_MAPPING, address, is_counted ? handle : 0);
	if (r < 0) {
		real.cuMemUnmap(address, size_bytes);
		if (is_counted)
			let_go(handle);
	}
	return cu_from_errno(r);
}

/* A range may hold several mappings, counted ones and others. */
HOOK_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemUnmap)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemUnmap(address, size_bytes);
	if (cr != CUDA_SUCCESS)
		return cr;
	struct ledger_entry entry;
	for (uint64_t at = address; at - address < size_bytes; at += entry.size_bytes) {
		if (ledger_take(LEDGER_MAPPING, at, &entry) < 0)
			break;
		let_go(entry.owner);
	}
	return cr;
}

HOOK_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemRetainAllocationHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemRetainAllocationHandle(handle, address);
	if (cr != CUDA_SUCCESS || ledger_hold(LEDGER_HANDLE, *handle) == 0)
		return cr;
	/* Another name for what a mapping is of. */
	struct ledger_entry mapping;
	if (ledger_take(LEDGER_MAPPING, (uintptr_t)address, &mapping) < 0)
		return cr;
	ledger_put_back(&mapping);
	const struct ledger_charge nothing = {.size_bytes = 0, .cell = 0};
	if (ledger_hold(LEDGER_HANDLE, mapping.owner) == 0)
		ledger_commit(&nothing, LEDGER_HANDLE, *handle, mapping.owner);
	return cr;
}

/*
 * Memory in a sparse array cannot be followed: the handle stays charged for the life of the process.
 */
static void hold_mapped(const CUarrayMapInfo *infos, unsigned int info_count)
{
	for (unsigned int i = 0; i < info_count; i++)
		if (infos[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
		    infos[i].memHandleType == CU_MEM_HANDLE_TYPE_GENERIC)
			ledger_hold(LEDGER_HANDLE, infos[i].memHandle.memHandle);
}

HOOK_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int info_count,
					CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemMapArrayAsync)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemMapArrayAsync(infos, info_count, stream);
	if (cr == CUDA_SUCCESS)
		hold_mapped(infos, info_count);
	return cr;
}

HOOK_EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *infos, unsigned int info_count,
					     CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemMapArrayAsync_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemMapArrayAsync_ptsz(infos, info_count, stream);
	if (cr == CUDA_SUCCESS)
		hold_mapped(infos, info_count);
	return cr;
}
