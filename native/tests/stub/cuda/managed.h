/*
 * Managed memory: it takes nothing of a device until it is used there.
 *
 * "Used" is coarse: the first copy, fill or prefetch that touches a block brings the whole of it
 * to the device; what does not fit stays on the host. Device memory that is asked for pushes it
 * back.
 */
#pragma once

#include "space.h"

/* Under space_lock. INVALID_VALUE when it is no managed block. */
CUresult managed_free(uint64_t address);

/* Under space_lock: push managed blocks to the host until `bytes` are given back, or all are. */
void managed_evict(CUdevice device, uint64_t bytes);

/* Bring the block that holds the address to the device, -1: to the host. Takes the lock. */
void managed_move(uint64_t address, CUdevice device);

/* Where it is now: a device, -1 for the host; -2 when it is no managed block. Takes the lock. */
CUdevice managed_where(uint64_t address);
