/* Executables: made of graphs, launched, changed. */
#include <stdlib.h>

#include "graph.h"
#include "timeline.h"

#define AUTO_FREE_ON_LAUNCH 1ull
#define UPLOAD 2ull
#define INSTANTIATE_FLAGS 15ull

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!exec || !object_is(OBJECT_GRAPH, graph) || (flags & ~INSTANTIATE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphExec made = object_new(OBJECT_EXEC, sizeof *made, NULL);
	CUgraph copy = made ? graph_copy(graph) : NULL;

	if (!copy) {
		object_delete(OBJECT_EXEC, made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made->graph = copy;
	made->flags = flags;
	made->device = context->device;
	*exec = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
				       char *log, size_t log_bytes)
{
	SIM_ENTER();
	if (bad)
		*bad = NULL;
	if (log && log_bytes)
		*log = '\0';
	return instantiate(exec, graph, 0);
}

SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
					  char *log, size_t log_bytes)
{
	return cuGraphInstantiate(exec, graph, bad, log, log_bytes);
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
						unsigned long long flags)
{
	SIM_ENTER();
	return instantiate(exec, graph, flags);
}

SIM_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
						 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	SIM_ENTER();
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = instantiate(exec, graph, params->flags & ~UPLOAD);

	if (cr == CUDA_SUCCESS && (params->flags & UPLOAD))
		cr = cuGraphUpload(*exec, params->hUploadStream);
	params->hErrNode_out = NULL;
	params->result_out = cr != CUDA_SUCCESS;
	return cr;
}

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EXEC, exec))
		return CUDA_ERROR_INVALID_VALUE;
	timeline_wait_all(exec->device);
	graph_free(exec->graph);
	object_delete(OBJECT_EXEC, exec);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	SIM_ENTER();
	if (!flags || !object_is(OBJECT_EXEC, exec))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* Nodes run in the order in which they were made, which is one that their edges allow. */
static CUresult run(CUgraph graph, CUstream stream, bool frees_first, uint64_t *duration_ns)
{
	CUresult cr = CUDA_SUCCESS;

	for (CUgraphNode node = graph->first; node && cr == CUDA_SUCCESS; node = node->next) {
		if (node->is_disabled)
			continue;
		switch (node->type) {
		case CU_GRAPH_NODE_TYPE_KERNEL:
			*duration_ns += node->duration_ns;
			break;
		case CU_GRAPH_NODE_TYPE_MEMCPY:
			cr = copy_do(&node->copy);
			break;
		case CU_GRAPH_NODE_TYPE_MEMSET:
			cr = fill_do(&node->fill);
			break;
		case CU_GRAPH_NODE_TYPE_HOST:
			cr = callbacks_add(stream, node->host.fn, node->host.userData);
			break;
		case CU_GRAPH_NODE_TYPE_GRAPH:
			cr = run(node->child, stream, frees_first, duration_ns);
			break;
		case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
			cr = graph_block_back(node->alloc.block, frees_first);
			break;
		case CU_GRAPH_NODE_TYPE_MEM_FREE:
			cr = graph_free_outside(node->free);
			break;
		default:
			break;
		}
	}
	return cr;
}

SIM_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	CUstream stream;
	CUgraphNode node;
	uint64_t duration_ns = 0;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!object_is(OBJECT_EXEC, exec))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->graph) { /* it becomes a part of what is captured */
		CUgraph copy = graph_copy(exec->graph);

		cr = graph_capture_node(stream->graph, stream, CU_GRAPH_NODE_TYPE_GRAPH, &node);
		if (cr == CUDA_SUCCESS)
			node->child = copy;
		return cr;
	}
	cr = run(exec->graph, stream, exec->flags & AUTO_FREE_ON_LAUNCH, &duration_ns);
	if (cr == CUDA_SUCCESS)
		stream_submit(stream, duration_ns);
	return cr;
}

/* The memory of its nodes is taken of the device, as for a launch, and lies ready for one. */
static CUresult lay_ready(CUgraph graph)
{
	CUresult cr = CUDA_SUCCESS;

	for (CUgraphNode node = graph->first; node && cr == CUDA_SUCCESS; node = node->next)
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !node->is_disabled)
			cr = graph_block_reserve(node->alloc.block);
	return cr;
}

SIM_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
	SIM_ENTER();
	CUresult cr = stream_check(handle);

	if (cr == CUDA_SUCCESS && !object_is(OBJECT_EXEC, exec))
		cr = CUDA_ERROR_INVALID_VALUE;
	return cr == CUDA_SUCCESS ? lay_ready(exec->graph) : cr;
}

/* Nodes are matched by their order. */
static bool is_alike(CUgraph one, CUgraph other)
{
	CUgraphNode a = one->first, b = other->first;

	while (a && b && a->type == b->type && a->after_count == b->after_count) {
		a = a->next;
		b = b->next;
	}
	return !a && !b;
}

static CUresult update(CUgraphExec exec, CUgraph graph)
{
	if (!object_is(OBJECT_EXEC, exec) || !object_is(OBJECT_GRAPH, graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_alike(exec->graph, graph))
		return (CUresult)910; /* CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE */
	CUgraph copy = graph_copy(graph);

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph_free(exec->graph);
	exec->graph = copy;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad, int *result)
{
	SIM_ENTER();
	CUresult cr = update(exec, graph);

	if (bad)
		*bad = NULL;
	if (result)
		*result = cr != CUDA_SUCCESS;
	return cr;
}

SIM_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *info)
{
	SIM_ENTER();
	CUresult cr = update(exec, graph);

	if (info)
		*(int *)info = cr != CUDA_SUCCESS;
	return cr;
}

static CUgraphNode in_exec(CUgraphExec exec, CUgraphNode original)
{
	CUgraphNode node = object_is(OBJECT_EXEC, exec) ? exec->graph->first : NULL;

	while (node && node->copy_of != original)
		node = node->next;
	return node;
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode original,
						   const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return graph_set_kernel(in_exec(exec, original), params,
				offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode original,
						      const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return graph_set_kernel(in_exec(exec, original), params, sizeof *params);
}

SIM_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode original,
					  unsigned int enabled)
{
	SIM_ENTER();
	CUgraphNode node = in_exec(exec, original);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	node->is_disabled = !enabled;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode original,
					  unsigned int *enabled)
{
	SIM_ENTER();
	const struct CUgraphNode_st *node = in_exec(exec, original);

	if (!node || !enabled)
		return CUDA_ERROR_INVALID_VALUE;
	*enabled = !node->is_disabled;
	return CUDA_SUCCESS;
}
