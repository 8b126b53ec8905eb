/* What the hooks of graphs, and of allocations that are recorded in graphs, tell each other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda_subset.h"

/* The devices on which graphs of this process allocate, as bits by ordinal; 0: there are no such graphs. */
uint64_t hook_graph_devices(void);

/* An allocation, or its free, became a node of a graph (NULL: which one is not known). */
void hook_graph_note_alloc(CUgraph graph, CUdevice ordinal, CUdeviceptr address, uint64_t size_bytes);
void hook_graph_note_free(CUdeviceptr address);

/* What a graph's first launch takes at least of a device; 0 when it was taken out before. */
uint64_t hook_graph_take_least(CUgraphExec exec, CUdevice ordinal);
void hook_graph_put_back_least(CUgraphExec exec, CUdevice ordinal, uint64_t least_bytes);

/* What the hook of cuGraphUpload does. */
CUresult hook_graph_upload(CUgraphExec exec, CUstream stream, bool is_thread_form);

/* For each ordinal whose bit is set. */
#define HOOK_GRAPH_EACH(ordinal, devices) \
	for (uint64_t left_ = (devices); left_; left_ &= left_ - 1) \
		for (CUdevice ordinal = __builtin_ctzll(left_), once_ = 1; once_; once_ = 0)
