/*
 * Which processes are on a device: the container's own, with what each is charged, as this pid
 * namespace sees them. All are told as computing, none as drawing or as clients of MPS; others'
 * processes are nobody's business here.
 *
 * Outside of our containers, and where the driver itself refuses, the driver's answer stands.
 */
#include <stdbool.h>
#include <stddef.h>

#include "hook_nvml_own.h"
#include "hooks.h"
#include "real.h"

enum kind { COMPUTING, OTHER }; /* which list is asked for */

/*
 * Leave in `own` what the list has, and check that there is room for it; as the driver does it: too little is
 * told with the room that it takes.
 */
static nvmlReturn_t choose(struct own_processes *own, enum kind kind, unsigned int *count, bool has_array)
{
	const unsigned int room = has_array ? *count : 0;
	own_drop_idle(own);
	if (kind != COMPUTING)
		own->count = 0;
	*count = own->count;
	return own->count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* Is what the driver says to a question without room an answer at all? */
static bool is_answer(nvmlReturn_t nr)
{
	return nr == NVML_SUCCESS || nr == NVML_ERROR_INSUFFICIENT_SIZE;
}

/* The instance that a handle stands for, as the driver's own list has it; UINT32_MAX: a whole card. */
static unsigned int instance_id(nvmlReturn_t (*ask)(nvmlDevice_t, unsigned int *), nvmlDevice_t device)
{
	unsigned int id = UINT32_MAX;
	return ask && ask(device, &id) == NVML_SUCCESS ? id : UINT32_MAX;
}

static void write_v1(const struct own_processes *own, nvmlDevice_t device, nvmlProcessInfo_v1_t *processes)
{
	(void)device;
	for (unsigned int i = 0; i < own->count; i++)
		processes[i] = (nvmlProcessInfo_v1_t){
			.pid = own->processes[i].pid,
			.usedGpuMemory = own->processes[i].used_bytes,
		};
}

static void write_v2(const struct own_processes *own, nvmlDevice_t device, nvmlProcessInfo_v2_t *processes)
{
	if (own->count == 0)
		return;
	const unsigned int gpu_instance = instance_id(real.nvmlDeviceGetGpuInstanceId, device);
	const unsigned int compute_instance = instance_id(real.nvmlDeviceGetComputeInstanceId, device);
	for (unsigned int i = 0; i < own->count; i++)
		processes[i] = (nvmlProcessInfo_v2_t){
			.pid = own->processes[i].pid,
			.usedGpuMemory = own->processes[i].used_bytes,
			.gpuInstanceId = gpu_instance,
			.computeInstanceId = compute_instance,
		};
}

/* The hook of a list. The driver is asked without room, whether it has an answer. */
#define LIST_HOOK(symbol, kind, info, write) \
	HOOK_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *processes) \
	{ \
		unsigned int none = 0; \
		struct own_processes own; \
		if (!real_load(REAL_NVML) || !real.symbol) \
			return NVML_ERROR_UNINITIALIZED; \
		if (!count || !own_processes(device, &own)) \
			return real.symbol(device, count, processes); \
		nvmlReturn_t nr = real.symbol(device, &none, NULL); \
		if (!is_answer(nr)) \
			return nr; \
		nr = choose(&own, kind, count, processes != NULL); \
		if (nr == NVML_SUCCESS) \
			write(&own, device, processes); \
		return nr; \
	}

LIST_HOOK(nvmlDeviceGetComputeRunningProcesses, COMPUTING, nvmlProcessInfo_v1_t, write_v1)
LIST_HOOK(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTING, nvmlProcessInfo_v2_t, write_v2)
LIST_HOOK(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTING, nvmlProcessInfo_v2_t, write_v2)
LIST_HOOK(nvmlDeviceGetGraphicsRunningProcesses, OTHER, nvmlProcessInfo_v1_t, write_v1)
LIST_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v2, OTHER, nvmlProcessInfo_v2_t, write_v2)
LIST_HOOK(nvmlDeviceGetGraphicsRunningProcesses_v3, OTHER, nvmlProcessInfo_v2_t, write_v2)
LIST_HOOK(nvmlDeviceGetMPSComputeRunningProcesses, OTHER, nvmlProcessInfo_v1_t, write_v1)
LIST_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v2, OTHER, nvmlProcessInfo_v2_t, write_v2)
LIST_HOOK(nvmlDeviceGetMPSComputeRunningProcesses_v3, OTHER, nvmlProcessInfo_v2_t, write_v2)

/* The same in one structure. Memory that confidential computing protects is not counted apart. */
HOOK_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
	struct own_processes own;
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetRunningProcessDetailList)
		return NVML_ERROR_UNINITIALIZED;
	if (!list || list->version != (sizeof *list | 1u << 24) || !own_processes(device, &own))
		return real.nvmlDeviceGetRunningProcessDetailList(device, list);
	nvmlProcessDetailList_v1_t none = {.version = list->version, .mode = list->mode};
	nvmlReturn_t nr = real.nvmlDeviceGetRunningProcessDetailList(device, &none);
	if (!is_answer(nr))
		return nr;
	nr = choose(&own, list->mode == 0 ? COMPUTING : OTHER, &list->numProcArrayEntries, list->procArray != NULL);
	if (nr != NVML_SUCCESS || own.count == 0)
		return nr;
	const unsigned int gpu_instance = instance_id(real.nvmlDeviceGetGpuInstanceId, device);
	const unsigned int compute_instance = instance_id(real.nvmlDeviceGetComputeInstanceId, device);
	for (unsigned int i = 0; i < own.count; i++)
		list->procArray[i] = (nvmlProcessDetail_v1_t){
			.pid = own.processes[i].pid,
			.usedGpuMemory = own.processes[i].used_bytes,
			.gpuInstanceId = gpu_instance,
			.computeInstanceId = compute_instance,
		};
	return nr;
}
