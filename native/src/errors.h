/*
 * errno to the drivers' codes, in one place. Logic modules return 0 or negative errno; hooks
 * translate.
 */
#pragma once

#include "cuda_subset.h"
#include "nvml_subset.h"

CUresult cu_from_errno(int error);
nvmlReturn_t nvml_from_errno(int error);
