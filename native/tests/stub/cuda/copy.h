/*
 * Copies and fills. They happen at once, whatever their stream still has to do; fills and copies from device to device may
 * be told to keep the device busy (HAMID_SIM_FILL_NS).
 */
#pragma once

#include "array.h"
#include "stream.h"

CUresult copy_do(const CUDA_MEMCPY3D *copy);
CUresult fill_do(const CUDA_MEMSET_NODE_PARAMS *fill);

/* The same in a stream; with `is_sync` its earlier work is waited for. */
CUresult copy_in(const CUDA_MEMCPY3D *copy, CUstream handle, bool is_sync);
CUresult fill_in(const CUDA_MEMSET_NODE_PARAMS *fill, CUstream handle, bool is_sync);
