/* How many bytes an array takes. Pure. */
#pragma once

#include <stdint.h>

#include "cuda_subset.h"

/*
 * Of an array with this many mipmap levels (1: a plain one). What sparse arrays and arrays that are
 * mapped later take is in the handles that are mapped: 0. Saturates.
 */
uint64_t array_size_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int level_count);
