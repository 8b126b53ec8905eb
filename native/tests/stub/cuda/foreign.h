/*
 * Memory that is another's: opened here by a handle, held by whoever gave it out.
 *
 * It counts for its owner only, and only for as long as the owner lives; contents are not shared.
 */
#pragma once

#include "space.h"

CUresult foreign_open(uint64_t bytes, CUdevice device, CUcontext context, CUdeviceptr *ret_address);

/* INVALID_VALUE when nothing foreign begins there. */
CUresult foreign_close(uint64_t address);
