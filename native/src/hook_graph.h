/* What the hooks of graphs, and of allocations that are recorded in graphs, tell each other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda_subset.h"

/* Has this process graphs that allocate? */
bool hook_graph_memory_in_use(void);

/* An allocation, or its free, became a node of a graph (NULL: which one is not known). */
void hook_graph_note_alloc(CUgraph graph, CUdeviceptr address, uint64_t size_bytes);
void hook_graph_note_free(CUdeviceptr address);

/* What a graph's first launch takes at least; 0 when it was taken out before. */
uint64_t hook_graph_take_least(CUgraphExec exec);
void hook_graph_put_back_least(CUgraphExec exec, uint64_t least_bytes);
