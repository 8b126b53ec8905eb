/*
 * What graphs will take at least, noted while they are built: the most that is certain before they
 * run. That is their largest allocation, or all of those that they do not free themselves.
 *
 * Notes of a graph go to what is instantiated from it, and to its parent when it becomes a child. Graphs that
 * allocate cannot be cloned; what several children of one parent take beyond the largest is charged when it was taken.
 *
 * Open: nothing is refused here.
 */
#include "hook_graph.h"

#include <stdatomic.h>

#include "hook_pool.h"
#include "hooks.h"
#include "ledger.h"
#include "real.h"

static _Atomic uint64_t in_use; /* as hook_graph_devices() */

uint64_t hook_graph_devices(void)
{
	return atomic_load_explicit(&in_use, memory_order_relaxed);
}

/* What a graph, or one made executable, takes of a device. Addresses leave six bits for an ordinal. */
static uint64_t key_of(const void *graph, CUdevice ordinal)
{
	return (uint64_t)(uintptr_t)graph << 6 | ((uint64_t)ordinal & 63);
}

/* In an entry of a graph: size_bytes = what it leaves allocated, owner = its largest allocation. */
static void note(uint64_t key, uint64_t more_bytes)
{
	struct ledger_entry entry;
	if (ledger_take(LEDGER_GRAPH, key, &entry) < 0)
		entry = (struct ledger_entry){.key = key, .count = 1, .kind = LEDGER_GRAPH};
	entry.size_bytes += more_bytes;
	if (more_bytes > entry.owner)
		entry.owner = more_bytes;
	ledger_put_back(&entry);
}

void hook_graph_note_alloc(CUgraph graph, CUdevice ordinal, CUdeviceptr address, uint64_t size_bytes)
{
	const uint64_t key = key_of(graph, ordinal);
	atomic_fetch_or(&in_use, 1ull << (ordinal & 63));
	if (!graph)
		return;
	note(key, size_bytes);
	ledger_put_back(&(struct ledger_entry){.key = address,
					       .size_bytes = size_bytes,
					       .owner = key,
					       .count = 1,
					       .kind = LEDGER_GRAPH_BLOCK});
}

/*
 * Recorded in the same graph, or done after it ran: then too much is subtracted, and the graph is
 * charged what it took when it took it.
 */
void hook_graph_note_free(CUdeviceptr address)
{
	struct ledger_entry block, graph;
	if (!hook_graph_devices() || ledger_take(LEDGER_GRAPH_BLOCK, address, &block) < 0 ||
	    ledger_take(LEDGER_GRAPH, block.owner, &graph) < 0)
		return;
	graph.size_bytes -= block.size_bytes < graph.size_bytes ? block.size_bytes : graph.size_bytes;
	ledger_put_back(&graph);
}

static void note_alloc(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	const CUdevice ordinal = context_ordinal_of_location(&parameters->poolProps.location);
	if (ordinal >= 0)
		hook_graph_note_alloc(graph, ordinal, parameters->dptr, parameters->bytesize);
}

uint64_t hook_graph_take_least(CUgraphExec exec, CUdevice ordinal)
{
	struct ledger_entry entry;
	return ledger_take(LEDGER_GRAPH_EXEC, key_of(exec, ordinal), &entry) == 0 ? entry.size_bytes : 0;
}

void hook_graph_put_back_least(CUgraphExec exec, CUdevice ordinal, uint64_t least_bytes)
{
	if (least_bytes)
		ledger_put_back(&(struct ledger_entry){.key = key_of(exec, ordinal),
						       .size_bytes = least_bytes,
						       .count = 1,
						       .kind = LEDGER_GRAPH_EXEC});
}

static CUresult instantiated(CUresult cr, const CUgraphExec *exec, CUgraph graph)
{
	struct ledger_entry entry;
	if (cr != CUDA_SUCCESS)
		return cr;
	HOOK_GRAPH_EACH(ordinal, hook_graph_devices()) {
		if (ledger_take(LEDGER_GRAPH, key_of(graph, ordinal), &entry) < 0)
			continue;
		ledger_put_back(&entry);
		hook_graph_put_back_least(*exec, ordinal, entry.size_bytes > entry.owner ?
								  entry.size_bytes :
								  entry.owner);
	}
	return cr;
}

HOOK_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
					    const CUgraphNode *dependencies, size_t dependency_count,
					    CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddMemAllocNode)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuGraphAddMemAllocNode(node, graph, dependencies, dependency_count,
						  parameters);
	if (cr == CUDA_SUCCESS)
		note_alloc(graph, parameters);
	return cr;
}

/* What a child surely takes, its parent does; as if at once, for the parent may free it. */
static void note_child(CUgraph graph, CUgraph child)
{
	struct ledger_entry entry, whole;
	HOOK_GRAPH_EACH(ordinal, hook_graph_devices()) {
		if (ledger_take(LEDGER_GRAPH, key_of(child, ordinal), &entry) < 0)
			continue;
		const uint64_t key = key_of(graph, ordinal);
		const uint64_t least = entry.size_bytes > entry.owner ? entry.size_bytes : entry.owner;
		if (ledger_take(LEDGER_GRAPH, key, &whole) < 0)
			whole = (struct ledger_entry){.key = key, .count = 1, .kind = LEDGER_GRAPH};
		if (least > whole.owner)
			whole.owner = least;
		ledger_put_back(&whole);
	}
}

static CUresult noted(CUresult cr, CUgraph graph, const CUgraphNodeParams *parameters)
{
	if (cr != CUDA_SUCCESS)
		return cr;
	switch (parameters->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		note_alloc(graph, &parameters->alloc);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		hook_graph_note_free(parameters->free.dptr);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		note_child(graph, parameters->graph.graph);
		break;
	default:
		break;
	}
	return cr;
}

HOOK_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
				    const CUgraphNode *dependencies, size_t dependency_count,
				    CUgraphNodeParams *parameters)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddNode)
		return CUDA_ERROR_NOT_INITIALIZED;
	return noted(real.cuGraphAddNode(node, graph, dependencies, dependency_count, parameters), graph,
		     parameters);
}

#define EDGED_NODE \
	CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, \
		const CUgraphEdgeData *edges, size_t dependency_count, CUgraphNodeParams *parameters
#define EDGED_NODE_NAMES node, graph, dependencies, edges, dependency_count, parameters

/* `call`: where the driver's own is, once it is loaded. */
static CUresult add_node(CUresult (**call)(EDGED_NODE), EDGED_NODE)
{
	if (!real_load(REAL_CUDA) || !*call)
		return CUDA_ERROR_NOT_INITIALIZED;
	return noted((*call)(EDGED_NODE_NAMES), graph, parameters);
}

HOOK_EXPORT CUresult cuGraphAddNode_v2(EDGED_NODE)
{
	return add_node(&real.cuGraphAddNode_v2, EDGED_NODE_NAMES);
}

HOOK_EXPORT CUresult cuGraphAddNode_v3(EDGED_NODE)
{
	return add_node(&real.cuGraphAddNode_v3, EDGED_NODE_NAMES);
}

HOOK_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph,
					   const CUgraphNode *dependencies, size_t dependency_count,
					   CUdeviceptr address)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphAddMemFreeNode)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuGraphAddMemFreeNode(node, graph, dependencies, dependency_count, address);
	if (cr == CUDA_SUCCESS)
		hook_graph_note_free(address);
	return cr;
}

HOOK_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
					char *log, size_t log_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphInstantiate)
		return CUDA_ERROR_NOT_INITIALIZED;
	return instantiated(real.cuGraphInstantiate(exec, graph, error_node, log, log_bytes), exec,
			    graph);
}

HOOK_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
					   char *log, size_t log_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphInstantiate_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	return instantiated(real.cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes), exec,
			    graph);
}

HOOK_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
						 unsigned long long flags)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphInstantiateWithFlags)
		return CUDA_ERROR_NOT_INITIALIZED;
	return instantiated(real.cuGraphInstantiateWithFlags(exec, graph, flags), exec, graph);
}

typedef CUresult instantiate_call(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);

/*
 * The driver may be asked to upload the graph as well, which takes its memory: then that is done by our own hook of
 * that, which reserves before. Nothing that the driver tells of the graph shows it.
 */
static CUresult instantiate_and_upload(instantiate_call *call, CUgraphExec *exec, CUgraph graph,
				       CUDA_GRAPH_INSTANTIATE_PARAMS *parameters, bool is_thread_form)
{
	CUgraphExec made = NULL;
	const cuuint64_t flags = parameters->flags;
	parameters->flags = flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	CUresult cr = instantiated(call(exec ? &made : NULL, graph, parameters), &made, graph);
	parameters->flags = flags;
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = hook_graph_upload(made, parameters->hUploadStream, is_thread_form);
	if (cr == CUDA_SUCCESS) {
		*exec = made;
	} else {
		cuGraphExecDestroy(made);
		parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
	}
	return cr;
}

/* `call`: where the driver's own is, once it is loaded. */
static CUresult instantiate(instantiate_call **call, CUgraphExec *exec, CUgraph graph,
			    CUDA_GRAPH_INSTANTIATE_PARAMS *parameters, bool is_thread_form)
{
	if (!real_load(REAL_CUDA) || !*call)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (parameters && (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) && hook_graph_devices())
		return instantiate_and_upload(*call, exec, graph, parameters, is_thread_form);
	return instantiated((*call)(exec, graph, parameters), exec, graph);
}

HOOK_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
						  CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	return instantiate(&real.cuGraphInstantiateWithParams, exec, graph, parameters, false);
}

HOOK_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
						       CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	return instantiate(&real.cuGraphInstantiateWithParams_ptsz, exec, graph, parameters, true);
}

/* Their notes go first, for the driver may give the handle to another thread at once. */
HOOK_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	HOOK_GRAPH_EACH(ordinal, hook_graph_devices())
		ledger_take(LEDGER_GRAPH, key_of(graph, ordinal), &entry);
	return real.cuGraphDestroy(graph);
}

HOOK_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	if (!real_load(REAL_CUDA) || !real.cuGraphExecDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	HOOK_GRAPH_EACH(ordinal, hook_graph_devices())
		hook_graph_take_least(exec, ordinal);
	CUresult cr = real.cuGraphExecDestroy(exec);
	hook_settle_pools();
	return cr;
}
