/*
 * What the tenant is told of its memory by the CUDA driver. Fails closed: where the limit cannot be
 * known, nothing is told.
 */
#include <errno.h>

#include "context.h"
#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"
#include "told.h"

/* The first version of these calls counts in 32 bits. */
static unsigned int clamp32(uint64_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

/* Put the slice's figures in place of the physical ones. */
static CUresult retell(const char *uuid, size_t *free_bytes, size_t *total_bytes)
{
	struct told told;
	int r = told_of(uuid, *total_bytes, *free_bytes, &told);
	if (r == -ENOENT)
		return CUDA_SUCCESS;
	if (r < 0)
		return cu_from_errno(r);
	*free_bytes = told.free_bytes;
	*total_bytes = told.total_bytes;
	return CUDA_SUCCESS;
}

/* The slice's figures of the current device. */
static CUresult current_memory(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
	struct whereabouts here;
	hook_settle_pools();
	CUresult cr = context_here(&here);
	if (cr == CUDA_SUCCESS)
		cr = real.cuMemGetInfo_v2(ret_free_bytes, ret_total_bytes);
	return cr == CUDA_SUCCESS ? retell(here.device->uuid, ret_free_bytes, ret_total_bytes) : cr;
}

HOOK_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemGetInfo_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	/*
	 * The driver judges the arguments, NULL included, but does not write where we may have to
	 * refuse.
	 */
	size_t free_told, total_told;
	CUresult cr = real.cuMemGetInfo_v2(free_bytes ? &free_told : NULL,
					   total_bytes ? &total_told : NULL);
	if (cr == CUDA_SUCCESS)
		cr = current_memory(&free_told, &total_told);
	if (cr == CUDA_SUCCESS && free_bytes)
		*free_bytes = free_told;
	if (cr == CUDA_SUCCESS && total_bytes)
		*total_bytes = total_told;
	return cr;
}

HOOK_EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemGetInfo || !real.cuMemGetInfo_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	unsigned int ignored_free, ignored_total;
	size_t free_told, total_told;
	CUresult cr = real.cuMemGetInfo(free_bytes ? &ignored_free : NULL,
					total_bytes ? &ignored_total : NULL);
	if (cr == CUDA_SUCCESS)
		cr = current_memory(&free_told, &total_told);
	if (cr == CUDA_SUCCESS && free_bytes)
		*free_bytes = clamp32(free_told);
	if (cr == CUDA_SUCCESS && total_bytes)
		*total_bytes = clamp32(total_told);
	return cr;
}

/* The slice's total of a device. */
static CUresult device_total(CUdevice device, size_t *ret_total_bytes)
{
	char uuid[HAMID_UUID_BYTES];
	size_t free_bytes = SIZE_MAX;
	CUresult cr = context_uuid(device, uuid);
	if (cr == CUDA_SUCCESS)
		cr = real.cuDeviceTotalMem_v2(ret_total_bytes, device);
	return cr == CUDA_SUCCESS ? retell(uuid, &free_bytes, ret_total_bytes) : cr;
}

HOOK_EXPORT CUresult cuDeviceTotalMem_v2(size_t *total_bytes, CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDeviceTotalMem_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!total_bytes)
		return real.cuDeviceTotalMem_v2(NULL, device);
	size_t total;
	CUresult cr = device_total(device, &total);
	if (cr == CUDA_SUCCESS)
		*total_bytes = total;
	return cr;
}

HOOK_EXPORT CUresult cuDeviceTotalMem(unsigned int *total_bytes, CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDeviceTotalMem || !real.cuDeviceTotalMem_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!total_bytes)
		return real.cuDeviceTotalMem(NULL, device);
	size_t total;
	CUresult cr = device_total(device, &total);
	if (cr == CUDA_SUCCESS)
		*total_bytes = clamp32(total);
	return cr;
}
