/*
 * The simulated libcuda.so.1: devices from the profile file, contexts, every way to take memory
 * (counted in the account shared with the simulated NVML), streams, graphs, and kernels that take
 * time on a device that all processes share.
 *
 * Layers: the files that define cu… functions → heap, timeline → space, object → account, device.
 *
 * Terms: device = a visible card, or the first visible instance of a card in MIG mode. Threads:
 * devices are fixed by cuInit; everything else says which lock it is under: object_lock before
 * space_lock, and neither while the engine's is held.
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
	uint64_t context_bytes;      /* what each context costs */
	uint32_t pci_domain, pci_bus, pci_device;
	uint32_t cc_major, cc_minor;
	uint32_t multiprocessors;
	bool is_mig;
};

/* The device of an ordinal; NULL if there is none, or before cuInit. */
const struct sim_device *sim_device(CUdevice device);
int sim_device_count(void);
int sim_cuda_version(void);

/*
 * The device that a location names, of which each is one locality domain; -1: host memory. INVALID_VALUE: no place
 * that this driver's version knows.
 */
CUresult sim_location(const CUmemLocation *location, CUdevice *ret_device);

/* The device whose UUID stands after `prefix` in the name of a memory file. */
bool sim_named_device(int fd, const char *prefix, int *ret_ordinal);

/* Success once cuInit ran in this process; a forked child of such a process gets no further. */
CUresult sim_ready(void);

/*
 * HAMID_SIM_CUDA_FAIL="cuMemAlloc_v2=999,cuMemFree_v2=700": these calls fail with these results.
 * Success when the call is not named.
 */
CUresult sim_injected(const char *symbol);

/* For programs linked to this driver: the calling thread's next call of the name fails (NULL: none does). Was one still to? */
SIM_EXPORT bool hamid_sim_fail_next(const char *symbol, CUresult result);

/* How every function begins: what is injected, then whether the driver is ready. */
CUresult sim_enter(const char *symbol);

/* The same, and the calling thread's context. */
CUresult sim_enter_context(const char *symbol, CUcontext *ret_context);

#define SIM_ENTER() \
	do { \
		CUresult entered_ = sim_enter(__func__); \
		if (entered_ != CUDA_SUCCESS) \
			return entered_; \
	} while (0)

#define SIM_ENTER_CONTEXT(context) \
	do { \
		CUresult entered_ = sim_enter_context(__func__, &(context)); \
		if (entered_ != CUDA_SUCCESS) \
			return entered_; \
	} while (0)

/* --- the account (account.c) --- */

uint64_t sim_used_bytes(const struct sim_device *device);
CUresult sim_take(const struct sim_device *device, uint64_t bytes);
void sim_give_back(const struct sim_device *device, uint64_t bytes);

/* The account shared with other processes; NULL where this process counts alone. */
struct state *sim_account(void);
