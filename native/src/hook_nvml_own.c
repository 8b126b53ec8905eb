#include "hook_nvml_own.h"

#include "real.h"

bool own_processes(nvmlDevice_t device, struct own_processes *ret_own)
{
	char uuid[96];
	struct device_limit limit;
	if (!real.nvmlDeviceGetUUID || real.nvmlDeviceGetUUID(device, uuid, sizeof uuid))
		return false;
	if (pages_limit(uuid, &limit) < 0)
		return false;
	const int count = pages_processes(limit.uuid, ret_own->processes, OWN_PROCESSES_MAX);
	ret_own->count = count < 0 ? 0 :
			 count > OWN_PROCESSES_MAX ? OWN_PROCESSES_MAX : (unsigned int)count;
	return true;
}

void own_drop_idle(struct own_processes *own)
{
	unsigned int kept = 0;
	for (unsigned int i = 0; i < own->count; i++)
		if (own->processes[i].used_bytes)
			own->processes[kept++] = own->processes[i];
	own->count = kept;
}

bool own_has(const struct own_processes *own, unsigned int pid)
{
	for (unsigned int i = 0; i < own->count; i++)
		if (own->processes[i].pid == pid)
			return true;
	return false;
}
