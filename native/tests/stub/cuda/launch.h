/* What launches cost. */
#pragma once

#include "cuda_types.h"

/* Check a launch, and how long it takes. */
CUresult launch_cost(const CUDA_KERNEL_NODE_PARAMS *launch, uint64_t *ret_ns);

/* How many blocks of this many threads a multiprocessor holds. */
uint64_t launch_blocks_per_sm(uint64_t threads);
