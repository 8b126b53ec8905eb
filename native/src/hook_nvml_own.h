/* What NVML hooks know of the container's own processes on a device (hook_nvml_own.c). */
#pragma once

#include <stdbool.h>

#include "nvml_subset.h"
#include "pages.h"

#define OWN_PROCESSES_MAX 256

struct own_processes {
	struct pages_process processes[OWN_PROCESSES_MAX];
	unsigned int count;
};

/* Are they to be told instead of the driver's? False outside, and where the page cannot be trusted. */
bool own_processes(nvmlDevice_t device, struct own_processes *ret_own);

/* Leave those that hold nothing of the device. */
void own_drop_idle(struct own_processes *own);

bool own_has(const struct own_processes *own, unsigned int pid);
