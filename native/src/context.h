/*
 * Which device a call is about. Devices are told by UUID: ordinals depend on CUDA_VISIBLE_DEVICES.
 */
#pragma once

#include "cuda_subset.h"
#include "hamid_pages.h"

/* "GPU-xxxxxxxx-…" of an ordinal; of a MIG instance its own. The driver's error if it has none. */
CUresult context_uuid(CUdevice device, char ret_uuid[HAMID_UUID_BYTES]);

/* The same for the calling thread's current context; the driver's own error without one. */
CUresult context_current_uuid(char ret_uuid[HAMID_UUID_BYTES]);
