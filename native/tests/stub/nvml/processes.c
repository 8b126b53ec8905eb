/* Which processes are on a card, in each form of the question. */
#define _GNU_SOURCE
#include "session.h"

#include <string.h>

#define MIB (1024ull * 1024)
#define MAX_PROCESSES 1024

static bool is_in(const struct process *process, const struct instance *instance)
{
	return process->gpu_instance == instance->gpu_instance &&
	       process->compute_instance == instance->compute_instance;
}

/* A growing list that remembers how long it would have become. */
struct process_list {
	nvmlProcessInfo_t *to;
	unsigned int capacity, count;
};

static void list_process(struct process_list *list, nvmlProcessInfo_t process)
{
	if (list->count < list->capacity)
		list->to[list->count] = process;
	list->count++;
}

static void list_held(struct process_list *list, const char *uuid, uint32_t gi, uint32_t ci)
{
	struct state_process held[MAX_PROCESSES];
	struct state *state = session_state();
	uint32_t count = state ? state_processes(state, uuid, held, MAX_PROCESSES) : 0;

	for (uint32_t i = 0; i < count && i < MAX_PROCESSES; i++)
		if (held[i].pid != 0) /* of another pid namespace: not ours to see */
			list_process(list, (nvmlProcessInfo_t){.pid = held[i].pid,
							       .usedGpuMemory = held[i].bytes,
							       .gpuInstanceId = gi,
							       .computeInstanceId = ci});
}

static void list_all(struct process_list *list, const struct view *view)
{
	for (uint32_t i = 0; i < view->card.process_count; i++) {
		const struct process *process = &view->card.processes[i];

		if (!view->is_instance || is_in(process, &view->instance))
			list_process(list, (nvmlProcessInfo_t){
						   .pid = process->pid,
						   .usedGpuMemory = process->memory_mib * MIB,
						   .gpuInstanceId = process->gpu_instance,
						   .computeInstanceId = process->compute_instance});
	}
	if (!view->is_instance)
		list_held(list, view->card.uuid, PROFILE_WHOLE_CARD, PROFILE_WHOLE_CARD);
	for (uint32_t i = 0; i < view->card.instance_count; i++) {
		const struct instance *instance = &view->card.instances[i];

		if (!view->is_instance || strcmp(view->instance.uuid, instance->uuid) == 0)
			list_held(list, instance->uuid, instance->gpu_instance,
				  instance->compute_instance);
	}
}

/* In two steps, as callers do: ask with room for none, then with room for that many. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
								  unsigned int *count,
								  nvmlProcessInfo_t *processes)
{
	struct view view;
	nvmlReturn_t result = count ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (view.card.fails & FAIL_NO_PROCESSES)
		return NVML_ERROR_NOT_SUPPORTED;
	struct process_list list = {.to = processes, .capacity = processes ? *count : 0};

	list_all(&list, &view);
	*count = list.count;
	return list.count > list.capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* --- the other forms: of drawing, and of MPS, there are none --- */

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *count)
{
	struct view view;
	nvmlReturn_t result = count ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

#define LIKE(symbol, other) \
	NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, \
					nvmlProcessInfo_t *processes) \
	{ \
		return other(device, count, processes); \
	}

#define NONE(symbol, info) \
	NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, info *processes) \
	{ \
		(void)processes; \
		return no_processes(device, count); \
	}

LIKE(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3)
NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

/* The first form says less of each. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
							       unsigned int *count,
							       nvmlProcessInfo_v1_t *processes)
{
	nvmlProcessInfo_t found[MAX_PROCESSES];
	const unsigned int room = count && processes ? *count : 0;
	unsigned int listed = room < MAX_PROCESSES ? room : MAX_PROCESSES;

	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, &listed, found);

	*count = listed;
	for (unsigned int i = 0; result == NVML_SUCCESS && i < listed; i++)
		processes[i] = (nvmlProcessInfo_v1_t){.pid = found[i].pid,
						      .usedGpuMemory = found[i].usedGpuMemory};
	return result;
}

/* All in one structure; there is no protected memory. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
								nvmlProcessDetailList_v1_t *list)
{
	nvmlProcessInfo_t found[MAX_PROCESSES];

	if (!list)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (list->version != NVML_PROCESS_DETAIL_LIST_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (list->mode != 0)
		return no_processes(device, &list->numProcArrayEntries);
	const unsigned int room = list->procArray ? list->numProcArrayEntries : 0;
	unsigned int listed = room < MAX_PROCESSES ? room : MAX_PROCESSES;
	nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, &listed, found);

	list->numProcArrayEntries = listed;
	for (unsigned int i = 0; result == NVML_SUCCESS && i < listed; i++)
		list->procArray[i] =
			(nvmlProcessDetail_v1_t){.pid = found[i].pid,
						 .usedGpuMemory = found[i].usedGpuMemory,
						 .gpuInstanceId = found[i].gpuInstanceId,
						 .computeInstanceId = found[i].computeInstanceId};
	return result;
}
