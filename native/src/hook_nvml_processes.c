/*
 * Which processes are on a device: the container's own, with what each is charged, as this pid
 * namespace sees them. All are told as computing, none as drawing or as clients of MPS; others'
 * processes are nobody's business here.
 *
 * Outside of our containers, and where the driver itself refuses, the driver's answer stands.
 */
#include <errno.h>
#include <stdbool.h>

#include "hooks.h"
#include "pages.h"
#include "real.h"

#define LIST_MAX 256

struct list {
	struct pages_process processes[LIST_MAX];
	unsigned int count;
};

/* Is there a list of ours to tell instead of the driver's? */
static bool list_ours(nvmlDevice_t device, struct list *ret_list)
{
	char uuid[96];
	struct device_limit limit;
	if (!real.nvmlDeviceGetUUID || real.nvmlDeviceGetUUID(device, uuid, sizeof uuid))
		return false;
	if (pages_limit(uuid, &limit) < 0)
		return false;
	int count = pages_processes(limit.uuid, ret_list->processes, LIST_MAX);
	ret_list->count = count < 0 ? 0 : count > LIST_MAX ? LIST_MAX : (unsigned int)count;
	return true;
}

static bool list_none(nvmlDevice_t device, struct list *ret_list)
{
	bool is_ours = list_ours(device, ret_list);
	ret_list->count = 0;
	return is_ours;
}

/* As the driver does it: too little room is told with the room that it takes. */
static nvmlReturn_t check_room(const struct list *list, unsigned int *count, bool has_array)
{
	const unsigned int room = has_array ? *count : 0;
	*count = list->count;
	return list->count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t retell_v1(const struct list *list, unsigned int *count,
			      nvmlProcessInfo_v1_t *processes)
{
	nvmlReturn_t nr = check_room(list, count, processes != NULL);
	for (unsigned int i = 0; nr == NVML_SUCCESS && i < list->count; i++)
		processes[i] = (nvmlProcessInfo_v1_t){
			.pid = list->processes[i].pid,
			.usedGpuMemory = list->processes[i].used_bytes,
		};
	return nr;
}

static nvmlReturn_t retell_v2(const struct list *list, unsigned int *count,
			      nvmlProcessInfo_v2_t *processes)
{
	nvmlReturn_t nr = check_room(list, count, processes != NULL);
	for (unsigned int i = 0; nr == NVML_SUCCESS && i < list->count; i++)
		processes[i] = (nvmlProcessInfo_v2_t){
			.pid = list->processes[i].pid,
			.usedGpuMemory = list->processes[i].used_bytes,
			.gpuInstanceId = UINT32_MAX,
			.computeInstanceId = UINT32_MAX,
		};
	return nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v1_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetComputeRunningProcesses)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_ours(device, &list))
		return real.nvmlDeviceGetComputeRunningProcesses(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetComputeRunningProcesses(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v1(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetComputeRunningProcesses_v2)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_ours(device, &list))
		return real.nvmlDeviceGetComputeRunningProcesses_v2(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetComputeRunningProcesses_v2(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetComputeRunningProcesses_v3)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_ours(device, &list))
		return real.nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetComputeRunningProcesses_v3(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v1_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetGraphicsRunningProcesses)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetGraphicsRunningProcesses(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetGraphicsRunningProcesses(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v1(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetGraphicsRunningProcesses_v2)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetGraphicsRunningProcesses_v2(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetGraphicsRunningProcesses_v2(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetGraphicsRunningProcesses_v3)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v1_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMPSComputeRunningProcesses)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetMPSComputeRunningProcesses(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetMPSComputeRunningProcesses(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v1(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMPSComputeRunningProcesses_v2)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetMPSComputeRunningProcesses_v2(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetMPSComputeRunningProcesses_v2(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
	nvmlProcessInfo_v2_t *processes)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetMPSComputeRunningProcesses_v3)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int none = 0;
	struct list list;
	if (!count || !list_none(device, &list))
		return real.nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, processes);
	nvmlReturn_t nr = real.nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &none, NULL);
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE ?
		       retell_v2(&list, count, processes) :
		       nr;
}
