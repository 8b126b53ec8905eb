/*
 * Which device, and which context, a call is about. Devices are told by UUID: ordinals depend on
 * CUDA_VISIBLE_DEVICES.
 *
 * Threads: any; no lock. What the calling thread's context is on is remembered per thread until any
 * context is destroyed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_subset.h"
#include "pages.h"

struct whereabouts {
	CUcontext context;
	CUdevice ordinal;
	struct pages_device *device;
};

/* Has this process to do with more than one device? Of contexts that no call of ours made, after their first launch. */
extern _Atomic bool context_has_several;

/*
 * Devices, by ordinal, that have a cap, or whose page cannot be trusted, or of several that nobody has looked at yet: while
 * there is one, launches look (hook_launch.h).
 */
extern _Atomic uint64_t launch_capped;

/* "GPU-xxxxxxxx-…" of an ordinal; of a MIG instance its own. The driver's error if it has none. */
CUresult context_uuid(CUdevice ordinal, char ret_uuid[HAMID_UUID_BYTES]);

/* The device of an ordinal; lives as long as the process. The driver's error if there is none. */
CUresult context_device(CUdevice ordinal, struct pages_device **ret_device);

/* The ordinal of a device of context_device(). */
CUdevice context_ordinal(const struct pages_device *device);

/* The ordinal of the device that memory at this place is of; -1: none, as of memory of the host. */
CUdevice context_ordinal_of_location(const CUmemLocation *location);

/* The device that memory at this place is of. CUDA_ERROR_INVALID_DEVICE: none, as of memory of the host. */
CUresult context_of_location(const CUmemLocation *location, struct pages_device **ret_device);

/* The calling thread's current context and its device; the driver's own error without one. */
CUresult context_here(struct whereabouts *ret_here);

/* The same for a stream's context: the current one for the streams that every context has. */
CUresult context_of_stream(CUstream stream, struct whereabouts *ret_there);

/* A context was destroyed or reset, or (NULL) one that nobody knows: handles may be given again. */
void context_forget(CUcontext context);

/* How often that was. */
uint64_t context_gone_count(void);

/* May this context be gone since the count was `since`? Of long ago, any may. */
bool context_is_gone(CUcontext context, uint64_t since);
