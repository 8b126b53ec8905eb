/*
 * Graphs: nodes and what they come after; executables, which are copies of a graph that can be
 * launched; and the memory that graphs allocate.
 *
 * Threads: a graph is changed by one thread at a time, as the real driver demands.
 */
#pragma once

#include "copy.h"
#include "stream.h"

struct graph_block;
struct graph_kept;

struct CUgraphNode_st {
	struct object object;
	CUgraph graph;
	int type;
	bool is_disabled;
	uint64_t duration_ns; /* of a kernel */
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		CUgraph child;
		CUevent event;
		struct {
			CUDA_MEM_ALLOC_NODE_PARAMS params;
			struct graph_block *block;
		} alloc;
		CUdeviceptr free;
	};
	CUgraphNode *after; /* that this one comes after */
	size_t after_count;
	CUgraphNode next; /* in order of making */
	CUgraphNode copy_of;
};

struct CUgraph_st {
	struct object object;
	CUgraphNode first, last;
	size_t count;
	bool is_child; /* goes with the node that holds it */
	struct graph_kept *kept;
};

struct CUgraphExec_st {
	struct object object;
	CUgraph graph; /* its own copy */
	unsigned long long flags;
	CUdevice device;
};

/* A node that comes after these; INVALID_VALUE when one of them is none of the graph. */
CUresult graph_add(CUgraph graph, const CUgraphNode *after, size_t count, int type,
		   CUgraphNode *ret_node);
void graph_free(CUgraph graph);
CUgraph graph_copy(CUgraph graph);

/* Objects of the program's (user_object.c): let them go; have a copy keep them as well. */
void graph_drop_kept(CUgraph graph);
bool graph_share_kept(CUgraph copy, CUgraph graph);

/* In captures: the node, put behind what the stream did last. */
CUresult graph_capture_node(CUgraph graph, CUstream stream, int type, CUgraphNode *ret_node);
CUresult graph_capture_alloc(CUgraph graph, CUstream stream, CUdevice device, uint64_t bytes,
			     CUdeviceptr *ret_address);
CUresult graph_capture_free(CUgraph graph, CUstream stream, CUdeviceptr address);

/* --- memory (graph_memory.c) --- */

struct graph_block *graph_block_new(CUdevice device, uint64_t bytes, CUdeviceptr *ret_address);
void graph_block_drop(struct graph_block *block);
struct graph_block *graph_block_share(struct graph_block *block);
CUresult graph_block_back(struct graph_block *block, bool is_reused);
/* Have so much idle that the block can be backed, unless it is. */
CUresult graph_block_reserve(struct graph_block *block);
bool graph_block_is_ours(CUdeviceptr address);

/* INVALID_VALUE when it is no memory of a graph, or not allocated now. */
CUresult graph_free_outside(CUdeviceptr address);

/* Change a kernel node; `bytes` of the parameters are given (two versions differ in that). */
CUresult graph_set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params, size_t bytes);
