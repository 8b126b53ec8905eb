/*
 * Lives by a shared clock of the simulated driver (HAMID_SIM_CLOCK=shared) for who is no CUDA program: time stands still
 * unless it is told to wait.
 *
 * For each line on stdin, a number of ns: waits so long, and prints what time it is then, and which processes the
 * driver saw use the device, as "NOW PID:PERCENT PID:PERCENT".
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_api.h"

#define PROCESSES 64

extern uint64_t hamid_sim_now_ns(void);
extern void hamid_sim_sleep(uint64_t ns);

struct load {
	unsigned int pid;
	unsigned long long at_us;
	unsigned int percent, memory, encoder, decoder;
};

static int (*process_loads)(void *device, struct load *, unsigned int *count, unsigned long long since_us);
static void *device;

static void open_nvml(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void), (*find)(unsigned int, void **);
	if (!nvml)
		exit(2);
	*(void **)&init = dlsym(nvml, "nvmlInit_v2");
	*(void **)&find = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&process_loads = dlsym(nvml, "nvmlDeviceGetProcessUtilization");
	if (init() || find(0, &device))
		exit(3);
}

int main(void)
{
	char line[64];
	struct load loads[PROCESSES];
	if (cuInit(0))
		return 2;
	open_nvml();
	while (fgets(line, sizeof line, stdin)) {
		unsigned int count = PROCESSES;
		hamid_sim_sleep(strtoull(line, NULL, 10));
		printf("%llu", (unsigned long long)hamid_sim_now_ns());
		if (process_loads(device, loads, &count, 0))
			count = 0;
		for (unsigned int i = 0; i < count; i++)
			printf(" %u:%u", loads[i].pid, loads[i].percent);
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
