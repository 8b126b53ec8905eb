/*
 * Memory of one process that others open: what IPC handles name, and blocks of pools. Handles of physical memory are in
 * hook_vmm.c.
 *
 * Both sides see the same 64 bytes, so these are what a share is known by. Who opens what a process of the container has
 * made is charged nothing, as long as that has it; what came from elsewhere is charged to the container, once.
 *
 * Offering is open: who does not find what was offered is charged. Opening fails closed.
 */
#include "hook_share.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

#define HANDLE_BYTES 64u

_Static_assert(sizeof(CUipcMemHandle) == HANDLE_BYTES && sizeof(CUmemPoolPtrExportData) == HANDLE_BYTES, "");

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

static uint64_t key_of(uint64_t hash)
{
	return HOOK_SHARE_NOTHING + 1 + hash % (HAMID_SHARE_KEYS - HOOK_SHARE_NOTHING - 1);
}

uint64_t hook_share_key(const void *bytes)
{
	uint64_t hash = 1;
	for (size_t i = 0; i < HANDLE_BYTES; i++)
		hash = mix(hash, ((const unsigned char *)bytes)[i]);
	return key_of(hash);
}

uint64_t hook_share_new_key(void)
{
	static _Atomic uint64_t count;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t hash = mix((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec);
	hash = mix(hash, (uintptr_t)&count); /* of processes that ask at the same time it lies elsewhere, */
	hash = mix(hash, (uint64_t)getpid()); /* or they have other pids */
	return key_of(mix(hash, atomic_fetch_add(&count, 1)));
}

/* --- opening --- */

struct opening {
	uint64_t key;
	uint64_t owner; /* the context that ends it; 0: none */
	int share;      /* negative: nobody of the container has made it, or nobody knows */
	CUresult (*close)(CUdeviceptr address);
};

/* It is there already, so it is charged afterwards: or closed again. */
static CUresult charge(const struct opening *opening, CUdeviceptr address)
{
	struct pages_device *device;
	struct ledger_charge claim;
	size_t size_bytes;
	CUdevice ordinal;
	CUresult cr = real.cuMemGetAddressRange_v2(NULL, &size_bytes, address);
	if (cr == CUDA_SUCCESS)
		cr = real.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
	if (cr == CUDA_SUCCESS)
		cr = context_device(ordinal, &device);
	if (cr == CUDA_SUCCESS)
		cr = hook_reserve(device, size_bytes, &claim);
	if (cr != CUDA_SUCCESS)
		return cr;
	const int share = ledger_adopt(&claim, opening->key);
	if (share >= 0)
		return cu_from_errno(ledger_borrow(LEDGER_IMPORT, address, opening->owner, (uint32_t)share));
	const int r = ledger_commit(&claim, LEDGER_IMPORT, address, opening->owner);
	if (r < 0)
		ledger_cancel(&claim);
	return cu_from_errno(r);
}

/* The driver answered `cr`. */
static CUresult end_opening(const struct opening *opening, CUresult cr, const CUdeviceptr *address)
{
	if (cr != CUDA_SUCCESS) {
		if (opening->share >= 0)
			pages_share_close((uint32_t)opening->share);
		return cr;
	}
	if (opening->share < 0)
		cr = charge(opening, *address);
	else
		cr = cu_from_errno(ledger_borrow(LEDGER_IMPORT, *address, opening->owner,
						 (uint32_t)opening->share));
	if (cr != CUDA_SUCCESS)
		opening->close(*address);
	return cr;
}

static bool can_be_counted(void)
{
	return pages_are_ours() && real.cuMemGetAddressRange_v2 && real.cuPointerGetAttribute;
}

/* --- by IPC handles --- */

HOOK_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuIpcGetMemHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuIpcGetMemHandle(handle, address);
	CUdeviceptr base;
	if (cr != CUDA_SUCCESS || !can_be_counted() ||
	    real.cuMemGetAddressRange_v2(&base, NULL, address) != CUDA_SUCCESS)
		return cr;
	uint64_t key = hook_share_key(handle);
	ledger_offer(LEDGER_MEMORY, base, &key);
	return cr;
}

static CUresult open_handle(CUresult (*call)(CUdeviceptr *, CUipcMemHandle, unsigned int), CUdeviceptr *address,
			    CUipcMemHandle handle, unsigned int flags)
{
	struct whereabouts here;
	if (!address || !can_be_counted() || context_here(&here) != CUDA_SUCCESS)
		return call(address, handle, flags);
	struct opening opening = {
		.key = hook_share_key(&handle),
		.owner = (uintptr_t)here.context,
		.close = real.cuIpcCloseMemHandle,
	};
	opening.share = pages_share_open(opening.key);
	return end_opening(&opening, call(address, handle, flags), address);
}

HOOK_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	if (!real_load(REAL_CUDA) || !real.cuIpcOpenMemHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	return open_handle(real.cuIpcOpenMemHandle, address, handle, flags);
}

HOOK_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	if (!real_load(REAL_CUDA) || !real.cuIpcOpenMemHandle_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return open_handle(real.cuIpcOpenMemHandle_v2, address, handle, flags);
}

/* Which memory this is, of all that the process ever had; 0: none. */
static unsigned long long identity_of(CUdeviceptr address)
{
	unsigned long long identity;
	return real.cuPointerGetAttribute &&
			       real.cuPointerGetAttribute(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) ==
				       CUDA_SUCCESS ?
		       identity :
		       0;
}

/* Opened again, it is at the same address, and has to be closed as often. */
HOOK_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuIpcCloseMemHandle)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	if (ledger_take(LEDGER_IMPORT, address, &entry) < 0)
		return real.cuIpcCloseMemHandle(address);
	const unsigned long long identity = identity_of(address);
	CUresult cr = real.cuIpcCloseMemHandle(address);
	if (cr != CUDA_SUCCESS || (identity && identity_of(address) == identity))
		ledger_put_back(&entry);
	else
		ledger_release(&entry);
	return cr;
}

/* --- blocks of pools; they are given back by any free (hook_memory.c) --- */

HOOK_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemPoolExportPointer)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemPoolExportPointer(data, address);
	if (cr == CUDA_SUCCESS && can_be_counted()) {
		uint64_t key = hook_share_key(data);
		ledger_offer(LEDGER_POOLED, address, &key);
	}
	return cr;
}

HOOK_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	if (!real_load(REAL_CUDA) || !real.cuMemPoolImportPointer)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!address || !data || !can_be_counted())
		return real.cuMemPoolImportPointer(address, pool, data);
	struct opening opening = {.key = hook_share_key(data), .close = real.cuMemFree_v2};
	opening.share = pages_share_open(opening.key);
	return end_opening(&opening, real.cuMemPoolImportPointer(address, pool, data), address);
}
