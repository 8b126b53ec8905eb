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

typedef nvmlReturn_t ask_v1(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *);
typedef nvmlReturn_t ask_v2(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *);

enum kind { COMPUTING, OTHER }; /* which list is asked for: of others there are none */

/* As the driver does it: too little room is told with the room that it takes. */
static nvmlReturn_t check_room(unsigned int listed, unsigned int *count, bool has_array)
{
	const unsigned int room = has_array ? *count : 0;
	*count = listed;
	return listed > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
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

static nvmlReturn_t tell_v1(ask_v1 *const *ask, enum kind kind, nvmlDevice_t device,
			    unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
	unsigned int none = 0;
	struct own_processes own;
	if (!real_load(REAL_NVML) || !*ask)
		return NVML_ERROR_UNINITIALIZED;
	if (!count || !own_processes(device, &own))
		return (*ask)(device, count, processes);
	nvmlReturn_t nr = (*ask)(device, &none, NULL);
	if (!is_answer(nr))
		return nr;
	own_drop_idle(&own);
	nr = check_room(kind == COMPUTING ? own.count : 0, count, processes != NULL);
	for (unsigned int i = 0; nr == NVML_SUCCESS && i < *count; i++)
		processes[i] = (nvmlProcessInfo_v1_t){
			.pid = own.processes[i].pid,
			.usedGpuMemory = own.processes[i].used_bytes,
		};
	return nr;
}

static nvmlReturn_t tell_v2(ask_v2 *const *ask, enum kind kind, nvmlDevice_t device,
			    unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	unsigned int none = 0;
	struct own_processes own;
	if (!real_load(REAL_NVML) || !*ask)
		return NVML_ERROR_UNINITIALIZED;
	if (!count || !own_processes(device, &own))
		return (*ask)(device, count, processes);
	nvmlReturn_t nr = (*ask)(device, &none, NULL);
	if (!is_answer(nr))
		return nr;
	own_drop_idle(&own);
	nr = check_room(kind == COMPUTING ? own.count : 0, count, processes != NULL);
	if (nr != NVML_SUCCESS || *count == 0)
		return nr;
	const unsigned int gpu_instance = instance_id(real.nvmlDeviceGetGpuInstanceId, device);
	const unsigned int compute_instance = instance_id(real.nvmlDeviceGetComputeInstanceId, device);
	for (unsigned int i = 0; i < *count; i++)
		processes[i] = (nvmlProcessInfo_v2_t){
			.pid = own.processes[i].pid,
			.usedGpuMemory = own.processes[i].used_bytes,
			.gpuInstanceId = gpu_instance,
			.computeInstanceId = compute_instance,
		};
	return nr;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
	return tell_v1(&real.nvmlDeviceGetComputeRunningProcesses, COMPUTING, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetComputeRunningProcesses_v2, COMPUTING, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetComputeRunningProcesses_v3, COMPUTING, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
	return tell_v1(&real.nvmlDeviceGetGraphicsRunningProcesses, OTHER, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetGraphicsRunningProcesses_v2, OTHER, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetGraphicsRunningProcesses_v3, OTHER, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
	return tell_v1(&real.nvmlDeviceGetMPSComputeRunningProcesses, OTHER, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetMPSComputeRunningProcesses_v2, OTHER, device, count, processes);
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v2_t *processes)
{
	return tell_v2(&real.nvmlDeviceGetMPSComputeRunningProcesses_v3, OTHER, device, count, processes);
}
