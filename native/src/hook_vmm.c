/*
 * Physical memory with handles, and its mappings. Charged to the device that the request names (no
 * context needs to be), once, for as long as a handle or a mapping keeps it.
 *
 * Whoever made it is charged: an imported handle is another's memory, of this container or of
 * another, and maps without a charge. Memory of the host is not counted.
 *
 * Fails closed.
 */
#include <stdbool.h>

#include "context.h"
#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

HOOK_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size_bytes,
				 const CUmemAllocationProp *properties, unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct pages_device *device;
	if (!handle || !properties || context_of_location(&properties->location, &device) != CUDA_SUCCESS)
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
	return cu_from_errno(r);
}

/* One reference less to a handle. */
static void let_go(uint64_t handle)
{
	struct ledger_entry entry;
	if (handle && ledger_let_go(LEDGER_HANDLE, handle, &entry) == 0 && entry.count == 0)
		ledger_release(&entry);
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
	if (!is_counted && !pages_are_ours())
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
	/* The handle that was mapped, so the one that we know. */
	CUresult cr = real.cuMemRetainAllocationHandle(handle, address);
	if (cr == CUDA_SUCCESS)
		ledger_hold(LEDGER_HANDLE, *handle);
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
