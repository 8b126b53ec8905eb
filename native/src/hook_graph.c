/*
 * Memory that graphs allocate when they run. The driver keeps it in a pool per device, which is
 * charged like any other (pools.c): after each call that may have made it grow, and before a launch
 * in the amount of the graph's own allocations that the pool has not yet.
 *
 * Terms: node bytes = what the allocation nodes of a graph ask for together.
 *
 * A process without such nodes pays one load per launch.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "context.h"
#include "errors.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

static _Atomic bool is_in_use; /* has this process graphs with allocations? */

void hook_graph_memory_seen(void)
{
	atomic_store_explicit(&is_in_use, true, memory_order_relaxed);
}

/* Charge the pool of the device that the stream is on. */
static CUresult settled(CUresult cr, CUstream stream)
{
	struct whereabouts there;
	if (!atomic_load_explicit(&is_in_use, memory_order_relaxed) ||
	    context_of_stream(stream, &there) != CUDA_SUCCESS)
		return cr;
	struct pool *pool = pools_get(POOL_GRAPH, (uint64_t)there.ordinal + 1, there.device);
	if (pool) {
		pools_touch(pool);
		hook_settle(pool, NULL, true);
	}
	return cr;
}

/* Is there room at all? What a graph will take is known only when it has run. */
static CUresult check(CUstream stream)
{
	struct whereabouts there;
	struct ledger_charge charge;
	if (!atomic_load_explicit(&is_in_use, memory_order_relaxed) ||
	    context_of_stream(stream, &there) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	CUresult cr = hook_reserve(there.device, 0, &charge);
	if (cr == CUDA_SUCCESS)
		ledger_cancel(&charge);
	return cr;
}

HOOK_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphLaunch)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = check(stream);
	return cr == CUDA_SUCCESS ? settled(real.cuGraphLaunch(exec, stream), stream) : cr;
}

HOOK_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphLaunch_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = check(stream);
	return cr == CUDA_SUCCESS ? settled(real.cuGraphLaunch_ptsz(exec, stream), stream) : cr;
}

HOOK_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphUpload)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = check(stream);
	return cr == CUDA_SUCCESS ? settled(real.cuGraphUpload(exec, stream), stream) : cr;
}

HOOK_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphUpload_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = check(stream);
	return cr == CUDA_SUCCESS ? settled(real.cuGraphUpload_ptsz(exec, stream), stream) : cr;
}

HOOK_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
					    const CUgraphNode *dependencies, size_t dependency_count,
					    CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddMemAllocNode)
		return CUDA_ERROR_NOT_INITIALIZED;
	hook_graph_memory_seen();
	return settled(real.cuGraphAddMemAllocNode(node, graph, dependencies, dependency_count,
						   parameters),
		       NULL);
}

static void look_at(const CUgraphNodeParams *parameters)
{
	if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		hook_graph_memory_seen();
}

HOOK_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
				    const CUgraphNode *dependencies, size_t dependency_count,
				    CUgraphNodeParams *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddNode)
		return CUDA_ERROR_NOT_INITIALIZED;
	look_at(parameters);
	return real.cuGraphAddNode(node, graph, dependencies, dependency_count, parameters);
}

HOOK_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
				       const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
				       size_t dependency_count, CUgraphNodeParams *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddNode_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	look_at(parameters);
	return real.cuGraphAddNode_v2(node, graph, dependencies, edges, dependency_count, parameters);
}

HOOK_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph,
				       const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
				       size_t dependency_count, CUgraphNodeParams *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddNode_v3)
		return CUDA_ERROR_NOT_INITIALIZED;
	look_at(parameters);
	return real.cuGraphAddNode_v3(node, graph, dependencies, edges, dependency_count, parameters);
}

HOOK_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDeviceGraphMemTrim)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuDeviceGraphMemTrim(device);
	hook_settle_pools();
	return cr;
}
