/*
 * What the tenant is told of its memory by NVML: the same story as hook_query.c tells. Used is what the
 * container's processes hold, not what the whole card does. Fails closed, as there.
 */
#include <errno.h>

#include "errors.h"
#include "hamid_pages.h"
#include "hooks.h"
#include "real.h"
#include "told.h"

static nvmlReturn_t told_of_handle(nvmlDevice_t device, uint64_t total_bytes, uint64_t free_bytes,
				   struct told *ret_told, int *ret_is_limited)
{
	char uuid[96];
	*ret_is_limited = 0;
	if (!real.nvmlDeviceGetUUID)
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	nvmlReturn_t nr = real.nvmlDeviceGetUUID(device, uuid, sizeof uuid);
	if (nr != NVML_SUCCESS)
		return nr;
	int r = told_of(uuid, total_bytes, free_bytes, ret_told);
	if (r == -ENOENT)
		return NVML_SUCCESS;
	*ret_is_limited = r == 0;
	return nvml_from_errno(r);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMemoryInfo)
		return NVML_ERROR_UNINITIALIZED;
	nvmlReturn_t nr = real.nvmlDeviceGetMemoryInfo(device, memory);
	if (nr != NVML_SUCCESS || !memory)
		return nr;
	struct told told;
	int is_limited;
	nr = told_of_handle(device, memory->total, memory->free, &told, &is_limited);
	if (is_limited) {
		memory->total = told.total_bytes;
		memory->free = told.free_bytes;
		memory->used = told.used_bytes;
	}
	return nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMemoryInfo_v2)
		return NVML_ERROR_UNINITIALIZED;
	nvmlReturn_t nr = real.nvmlDeviceGetMemoryInfo_v2(device, memory);
	if (nr != NVML_SUCCESS || !memory)
		return nr;
	struct told told;
	int is_limited;
	nr = told_of_handle(device, memory->total, memory->free, &told, &is_limited);
	if (is_limited) {
		memory->total = told.total_bytes;
		memory->free = told.free_bytes;
		memory->used = told.used_bytes;
		memory->reserved = 0; /* the driver's own is not of the slice */
	}
	return nr;
}
