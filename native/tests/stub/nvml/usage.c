/* What is used of a card now: memory, warmth. Processes are in processes.c. */
#define _GNU_SOURCE
#include "session.h"

#include <string.h>
#include <time.h>

#define MIB (1024ull * 1024)

struct memory {
	uint64_t total, reserved, used; /* bytes; used holds nothing reserved */
};

static bool is_in(const struct process *process, const struct instance *instance)
{
	return process->gpu_instance == instance->gpu_instance &&
	       process->compute_instance == instance->compute_instance;
}

static uint64_t held_by_processes(const char *uuid)
{
	struct state *state = session_state();

	return state ? state_used_bytes(state, uuid) : 0;
}

static struct memory instance_memory(const struct view *view)
{
	struct memory memory = {.total = view->instance.memory_mib * MIB};

	for (uint32_t i = 0; i < view->card.process_count; i++)
		if (is_in(&view->card.processes[i], &view->instance))
			memory.used += view->card.processes[i].memory_mib * MIB;
	memory.used += held_by_processes(view->instance.uuid);
	return memory;
}

static struct memory card_memory(const struct card *card)
{
	struct memory memory = {.total = card->memory_mib * MIB,
				.reserved = card->reserved_mib * MIB,
				.used = card->used_mib * MIB};

	for (uint32_t i = 0; i < card->process_count; i++)
		memory.used += card->processes[i].memory_mib * MIB;
	memory.used += held_by_processes(card->uuid);
	for (uint32_t i = 0; i < card->instance_count; i++)
		memory.used += held_by_processes(card->instances[i].uuid);
	return memory;
}

static nvmlReturn_t read_memory(nvmlDevice_t device, struct memory *ret_memory)
{
	struct view view;
	nvmlReturn_t result = session_view(device, &view);

	while (result == NVML_SUCCESS && (view.card.fails & FAIL_HANG)) {
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		result = session_view(device, &view);
	}
	if (result != NVML_SUCCESS)
		return result;
	if (view.card.fails & FAIL_NO_MEMORY_INFO)
		return NVML_ERROR_NOT_SUPPORTED;
	struct memory memory = view.is_instance ? instance_memory(&view) : card_memory(&view.card);

	if (memory.reserved > memory.total)
		memory.reserved = memory.total;
	if (memory.used > memory.total - memory.reserved)
		memory.used = memory.total - memory.reserved;
	*ret_memory = memory;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
	struct memory memory;
	nvmlReturn_t result = info ? read_memory(device, &memory) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	info->total = memory.total;
	info->used = memory.used + memory.reserved;
	info->free = info->total - info->used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
	struct memory memory;

	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	nvmlReturn_t result = read_memory(device, &memory);

	if (result != NVML_SUCCESS)
		return result;
	info->total = memory.total;
	info->reserved = memory.reserved;
	info->used = memory.used;
	info->free = memory.total - memory.reserved - memory.used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
						   unsigned int *temperature)
{
	struct view view;
	nvmlReturn_t result = temperature && sensor == 0 ? session_view(device, &view)
							 : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (view.card.fails & FAIL_NO_TEMPERATURE)
		return NVML_ERROR_NOT_SUPPORTED;
	*temperature = view.card.temperature_c;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power_mw)
{
	struct view view;
	nvmlReturn_t result = power_mw ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*power_mw = view.card.power_mw;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device,
							    unsigned int *power_mw)
{
	struct view view;
	nvmlReturn_t result = power_mw ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*power_mw = view.card.power_limit_mw;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int error_type,
						      unsigned int counter_type,
						      unsigned long long *count)
{
	struct view view;
	nvmlReturn_t result = count ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	(void)counter_type; /* volatile and aggregate are one here */
	if (result != NVML_SUCCESS)
		return result;
	*count = 0;
	for (uint32_t i = 0; i < view.card.event_count; i++) /* event bits 1 and 2, types 0 and 1 */
		*count += view.card.events[i].type == 1ull << error_type;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
						    unsigned int *uncorrectable,
						    unsigned int *is_pending,
						    unsigned int *has_failed)
{
	struct view view;
	nvmlReturn_t result = session_view(device, &view);

	if (result == NVML_SUCCESS)
		*correctable = *uncorrectable = *is_pending = *has_failed = 0;
	return result;
}
