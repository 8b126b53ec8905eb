/*
 * What the tenant is told of its memory by NVML: the same story as hook_query.c tells. Used is what
 * the container's processes hold, not what the whole card does. Fails closed, as there.
 */
#include <errno.h>

#include "errors.h"
#include "hamid_pages.h"
#include "hooks.h"
#include "real.h"
#include "told.h"

/* Where the driver's own figures are the right ones, they stay in *told. */
static nvmlReturn_t retell(nvmlDevice_t device, struct told *told)
{
	char uuid[96];
	if (!real.nvmlDeviceGetUUID)
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	nvmlReturn_t nr = real.nvmlDeviceGetUUID(device, uuid, sizeof uuid);
	if (nr != NVML_SUCCESS)
		return nr;
	int r = told_of(uuid, told->total_bytes, told->free_bytes, told);
	return nvml_from_errno(r == -ENOENT ? 0 : r);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMemoryInfo)
		return NVML_ERROR_UNINITIALIZED;
	if (!memory)
		return real.nvmlDeviceGetMemoryInfo(device, NULL);
	nvmlMemory_t whole;
	nvmlReturn_t nr = real.nvmlDeviceGetMemoryInfo(device, &whole);
	if (nr != NVML_SUCCESS)
		return nr;
	struct told told = {whole.total, whole.free, whole.used, false};
	nr = retell(device, &told);
	if (nr == NVML_SUCCESS)
		*memory = (nvmlMemory_t){
			.total = told.total_bytes,
			.free = told.free_bytes,
			.used = told.used_bytes,
		};
	return nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMemoryInfo_v2)
		return NVML_ERROR_UNINITIALIZED;
	if (!memory)
		return real.nvmlDeviceGetMemoryInfo_v2(device, NULL);
	nvmlMemory_v2_t whole = {.version = memory->version};
	if (memory->version != (sizeof whole | 2u << 24)) /* another struct: the driver's to judge */
		return real.nvmlDeviceGetMemoryInfo_v2(device, memory);
	nvmlReturn_t nr = real.nvmlDeviceGetMemoryInfo_v2(device, &whole);
	if (nr != NVML_SUCCESS)
		return nr;
	struct told told = {whole.total, whole.free, whole.used, false};
	nr = retell(device, &told);
	if (nr != NVML_SUCCESS)
		return nr;
	if (told.is_slice)
		whole.reserved = 0; /* the driver's own is not of the slice */
	whole.total = told.total_bytes;
	whole.free = told.free_bytes;
	whole.used = told.used_bytes;
	*memory = whole;
	return nr;
}
