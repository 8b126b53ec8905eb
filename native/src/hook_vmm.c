/*
 * Physical memory with handles, and its mappings. Charged to the device that the request names (no
 * context needs to be), once, for as long as a handle or a mapping keeps it.
 *
 * Who made it is charged, and, once he has let go of it, the container as a whole, as long as another has it. An
 * imported handle is known by a note on the descriptor that it came by, or by its 64 bytes (fabric handles). A
 * descriptor without a note that is ours is of memory that nobody of the container made: each mapping of it is
 * charged, for only then its size is known. Memory of the host is not counted, nor what fabric handles bring from elsewhere.
 *
 * Fails closed; but exporting is never refused.
 */
#include <errno.h>
#include <stdbool.h>

#include "context.h"
#include "descriptor_note.h"
#include "errors.h"
#include "hook_pool.h"
#include "hook_share.h"
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
	if (taken < 0)
		taken = ledger_let_go(LEDGER_FOREIGN, handle, &entry);
	CUresult cr = real.cuMemRelease(handle);
	if (taken < 0)
		return cr;
	if (cr != CUDA_SUCCESS) {
		if (entry.count == 0)
			ledger_put_back(&entry);
		else
			ledger_hold(entry.kind, handle);
	} else if (entry.count == 0) {
		ledger_release(&entry);
	}
	return cr;
}

/* Is the handle of memory that nobody of the container is charged for? Then map it, and charge the mapping. */
static bool has_mapped_foreign(CUdeviceptr address, size_t size_bytes, size_t offset,
			       CUmemGenericAllocationHandle handle, unsigned long long flags, CUresult *ret_cr)
{
	struct ledger_entry note;
	struct ledger_charge charge;
	struct pages_device *device;
	CUmemAllocationProp properties;
	if (ledger_hold(LEDGER_FOREIGN, handle) < 0)
		return false;
	ledger_let_go(LEDGER_FOREIGN, handle, &note);
	if (!real.cuMemGetAllocationPropertiesFromHandle ||
	    real.cuMemGetAllocationPropertiesFromHandle(&properties, handle) != CUDA_SUCCESS ||
	    context_of_location(&properties.location, &device) != CUDA_SUCCESS)
		return false; /* of the host */
	*ret_cr = hook_reserve(device, size_bytes, &charge);
	if (*ret_cr != CUDA_SUCCESS)
		return true;
	*ret_cr = real.cuMemMap(address, size_bytes, offset, handle, flags);
	const int r = *ret_cr == CUDA_SUCCESS ? ledger_commit(&charge, LEDGER_MAPPED, address, 0) : 0;
	if (r < 0) {
		real.cuMemUnmap(address, size_bytes);
		*ret_cr = cu_from_errno(r);
	}
	if (*ret_cr != CUDA_SUCCESS)
		ledger_cancel(&charge);
	return true;
}

HOOK_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset,
			      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemMap)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult foreign;
	if (has_mapped_foreign(address, size_bytes, offset, handle, flags, &foreign))
		return foreign;
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
		if (ledger_take(LEDGER_MAPPING, at, &entry) == 0)
			let_go(entry.owner);
		else if (ledger_take(LEDGER_MAPPED, at, &entry) == 0)
			ledger_release(&entry);
		else
			break;
	}
	return cr;
}

/* The driver gave a handle: one more reference to one that we know, a share's, or one of what is foreign. */
static int note_import(CUmemGenericAllocationHandle handle, int share, bool is_foreign)
{
	if (ledger_hold(LEDGER_HANDLE, handle) == 0) {
		if (share >= 0)
			pages_share_close((uint32_t)share);
		return 0;
	}
	if (share >= 0)
		return ledger_borrow(LEDGER_HANDLE, handle, 0, (uint32_t)share);
	const struct ledger_charge nothing = {.size_bytes = 0};
	if (!is_foreign || ledger_hold(LEDGER_FOREIGN, handle) == 0)
		return 0;
	return ledger_commit(&nothing, LEDGER_FOREIGN, handle, 0);
}

HOOK_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemRetainAllocationHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	/* The handle that was mapped, so the one that we know; or of what is not charged by its handle. */
	CUresult cr = real.cuMemRetainAllocationHandle(handle, address);
	if (cr == CUDA_SUCCESS)
		note_import(*handle, -ENOENT, pages_are_ours());
	return cr;
}

/* --- other processes' --- */

HOOK_EXPORT CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
						  CUmemAllocationHandleType type, unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuMemExportToShareableHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemExportToShareableHandle(shareable, handle, type, flags);
	const bool is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (cr != CUDA_SUCCESS || !pages_are_ours() || !(is_descriptor || type == CU_MEM_HANDLE_TYPE_FABRIC))
		return cr;
	uint64_t key = is_descriptor ? hook_share_new_key() : hook_share_key(shareable);
	const int r = ledger_offer(LEDGER_HANDLE, handle, &key);
	struct ledger_entry note;
	if (r == -ENOENT && ledger_hold(LEDGER_FOREIGN, handle) == 0)
		ledger_let_go(LEDGER_FOREIGN, handle, &note); /* who imports it is charged as we are */
	else if (is_descriptor && r == -ENOENT)
		descriptor_note_put(*(int *)shareable, HOOK_SHARE_NOTHING);
	else if (is_descriptor && r == 0)
		descriptor_note_put(*(int *)shareable, key);
	return cr;
}

HOOK_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
						    CUmemAllocationHandleType type)
{
	if (!real_load(REAL_CUDA) || !real.cuMemImportFromShareableHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	const bool is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (!handle || !(shareable || is_descriptor) || !pages_are_ours())
		return real.cuMemImportFromShareableHandle(handle, shareable, type);
	uint64_t key = HOOK_SHARE_NOTHING;
	if (is_descriptor)
		key = descriptor_note_get((int)(intptr_t)shareable);
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		key = hook_share_key(shareable);
	const int share = key > HOOK_SHARE_NOTHING ? pages_share_open(key) : -ENOENT;
	CUresult cr = real.cuMemImportFromShareableHandle(handle, shareable, type);
	if (cr != CUDA_SUCCESS) {
		if (share >= 0)
			pages_share_close((uint32_t)share);
		return cr;
	}
	const int r = note_import(*handle, share, is_descriptor && key != HOOK_SHARE_NOTHING);
	if (r < 0)
		real.cuMemRelease(*handle);
	return cu_from_errno(r);
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
