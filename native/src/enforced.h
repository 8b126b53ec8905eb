/*
 * What else holds this process to its share: then the library does not do it a second time, for two caps on one
 * another would leave a fraction. It says so in the usage page.
 *
 * The environment of a container is no authority (a pod's author writes it), nor are its files. So MPS counts only where the
 * control page says that the host runs it, and a process of outside listens at its socket.
 *
 * Threads: any; no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hamid_pages.h"

struct enforced_facts {
	const char *device_name;   /* as the control page has it */
	uint32_t percent;          /* what the control page promises; 0: no cap */
	uint32_t flags;            /* HAMID_FLAG_… */
	const char *mps_percent;   /* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or NULL */
	bool has_mps_pipe;         /* there is what a control daemon of MPS makes */
	bool is_mps_outside;       /* and who listens there is no process of this container */
	const char *dmem_max;      /* of the cgroup, or NULL */
};

/* HAMID_ENFORCED_… of these facts. Pure. */
uint32_t enforced_of(const struct enforced_facts *facts);

/* Of this process; environment and cgroup are looked at once. */
uint32_t enforced_here(const char *device_name, uint32_t percent, uint32_t flags);

/* Is there no need for a cap of ours? */
static inline bool enforced_is_stronger(uint32_t enforced)
{
	return enforced & (HAMID_ENFORCED_MIG | HAMID_ENFORCED_MPS);
}
