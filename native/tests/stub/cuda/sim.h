/*
 * The simulated libcuda.so.1: devices from the profile file, contexts, memory that is counted (in
 * the account shared with the simulated NVML) and can be copied to, look-up by version. No kernels.
 *
 * What it does not imitate: allocation granularity, what a context costs, streams, modules,
 * launches.
 *
 * Terms: device = a visible card, or the first visible instance of a card in MIG mode. Threads:
 * devices are fixed by cuInit; contexts' counts and the list of blocks have one mutex each.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda_api.h"
#include "profile.h"
#include "state.h"

#define SIM_DEVICES_MAX PROFILE_MAX_CARDS

struct sim_device {
	char uuid[PROFILE_TEXT];
	uint8_t uuid_bytes[16];
	uint8_t card_uuid_bytes[16];
	char name[PROFILE_TEXT];
	uint64_t total_bytes;
	uint64_t free_bytes_at_most; /* what the card's own figures leave for programs */
	uint32_t pci_domain, pci_bus, pci_device;
	uint32_t cc_major, cc_minor;
	uint32_t multiprocessors;
};

/* The device of an ordinal; NULL if there is none, or before cuInit. */
const struct sim_device *sim_device(CUdevice device);

/* Success once cuInit ran in this process; a forked child of such a process gets no further. */
CUresult sim_ready(void);

CUresult sim_current_device(CUdevice *ret_device);

uint64_t sim_used_bytes(const struct sim_device *device);
CUresult sim_take(const struct sim_device *device, uint64_t bytes);
void sim_give_back(const struct sim_device *device, uint64_t bytes);

/* Free what a context left behind. */
void sim_free_context(CUcontext context);

/*
 * HAMID_SIM_CUDA_FAIL="cuMemAlloc_v2=999,cuMemFree_v2=700": these calls fail with these results.
 * Success when the call is not named.
 */
CUresult sim_injected(const char *symbol);
