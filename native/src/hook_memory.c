/*
 * Taking and giving back device memory. A hook asks the ledger, calls the driver, records.
 *
 * Fails closed: memory that cannot be counted is not allocated. A free always reaches the driver,
 * and the driver's word is the answer.
 */
#include "context.h"
#include "errors.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

/* What is counted is what the current device owns; without a context the driver says so itself. */
static CUresult reserve_here(uint64_t size_bytes, struct ledger_charge *ret_charge)
{
	char uuid[HAMID_UUID_BYTES];
	CUresult cr = context_current_uuid(uuid);
	if (cr != CUDA_SUCCESS)
		return cr;
	return cu_from_errno(ledger_reserve(uuid, size_bytes, ret_charge));
}

HOOK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAlloc_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge;
	CUresult cr = reserve_here(size_bytes, &charge);
	if (cr != CUDA_SUCCESS)
		return cr;

	cr = real.cuMemAlloc_v2(address, size_bytes);
	if (cr != CUDA_SUCCESS) {
		ledger_cancel(&charge);
		return cr;
	}
	ledger_commit(&charge, *address);
	return CUDA_SUCCESS;
}

HOOK_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int size_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAlloc)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge;
	CUresult cr = reserve_here(size_bytes, &charge);
	if (cr != CUDA_SUCCESS)
		return cr;

	cr = real.cuMemAlloc(address, size_bytes);
	if (cr != CUDA_SUCCESS) {
		ledger_cancel(&charge);
		return cr;
	}
	ledger_commit(&charge, *address);
	return CUDA_SUCCESS;
}

static CUresult settle(CUresult cr, int taken, const struct ledger_charge *charge, uint64_t address)
{
	if (taken == 0 && cr == CUDA_SUCCESS)
		ledger_release(charge);
	else if (taken == 0)
		ledger_put_back(charge, address);
	return cr;
}

HOOK_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFree_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge;
	int taken = ledger_take(address, &charge);
	return settle(real.cuMemFree_v2(address), taken, &charge, address);
}

HOOK_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
	if (!real_load(REAL_CUDA) || !real.cuMemFree)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_charge charge;
	int taken = ledger_take(address, &charge);
	return settle(real.cuMemFree(address), taken, &charge, address);
}
