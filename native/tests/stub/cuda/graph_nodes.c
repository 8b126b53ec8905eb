/* Nodes by their kinds: added, asked, changed. */
#include <string.h>

#include "graph.h"
#include "launch.h"

#define ADD_PARAMS CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count

static CUresult add_kernel(ADD_PARAMS, const CUDA_KERNEL_NODE_PARAMS *params, size_t bytes)
{
	CUDA_KERNEL_NODE_PARAMS whole = {0};
	uint64_t duration_ns;

	if (!node || !params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&whole, params, bytes);
	CUresult cr = launch_cost(&whole, &duration_ns);

	if (cr == CUDA_SUCCESS)
		cr = graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_KERNEL, node);
	if (cr == CUDA_SUCCESS) {
		(*node)->kernel = whole;
		(*node)->duration_ns = duration_ns;
	}
	return cr;
}

SIM_EXPORT CUresult cuGraphAddKernelNode(ADD_PARAMS, const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return add_kernel(node, graph, after, count, params, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(ADD_PARAMS, const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return add_kernel(node, graph, after, count, params, sizeof *params);
}

SIM_EXPORT CUresult cuGraphAddMemcpyNode(ADD_PARAMS, const CUDA_MEMCPY3D *copy, CUcontext context)
{
	(void)context;
	SIM_ENTER();
	if (!node || !copy)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_MEMCPY, node);

	if (cr == CUDA_SUCCESS)
		(*node)->copy = *copy;
	return cr;
}

SIM_EXPORT CUresult cuGraphAddMemsetNode(ADD_PARAMS, const CUDA_MEMSET_NODE_PARAMS *fill,
					 CUcontext context)
{
	SIM_ENTER();
	if (!node || !fill)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_MEMSET, node);

	if (cr == CUDA_SUCCESS) {
		memcpy(&(*node)->fill, fill, offsetof(CUDA_MEMSET_NODE_PARAMS, ctx));
		(*node)->fill.ctx = context;
	}
	return cr;
}

SIM_EXPORT CUresult cuGraphAddHostNode(ADD_PARAMS, const CUDA_HOST_NODE_PARAMS *host)
{
	SIM_ENTER();
	if (!node || !host || !host->fn)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_HOST, node);

	if (cr == CUDA_SUCCESS)
		(*node)->host = *host;
	return cr;
}

SIM_EXPORT CUresult cuGraphAddEmptyNode(ADD_PARAMS)
{
	SIM_ENTER();
	return node ? graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_EMPTY, node)
		    : CUDA_ERROR_INVALID_VALUE;
}

static bool has_memory_nodes(CUgraph graph)
{
	for (CUgraphNode node = graph->first; node; node = node->next)
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		    node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return true;
	return false;
}

/* One with memory nodes can be moved only, not cloned. */
static CUresult add_child(ADD_PARAMS, CUgraph child, bool is_moved)
{
	if (!node || !object_is(OBJECT_GRAPH, child) || child == graph || (is_moved && child->is_child))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_moved && has_memory_nodes(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	CUgraph own = is_moved ? child : graph_copy(child);
	CUresult cr = own ? graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_GRAPH, node)
			  : CUDA_ERROR_OUT_OF_MEMORY;

	if (cr == CUDA_SUCCESS) {
		own->is_child = true;
		(*node)->child = own;
	} else if (own && !is_moved) {
		graph_free(own);
	}
	return cr;
}

SIM_EXPORT CUresult cuGraphAddChildGraphNode(ADD_PARAMS, CUgraph child)
{
	SIM_ENTER();
	return add_child(node, graph, after, count, child, false);
}

SIM_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
	SIM_ENTER();
	if (!child || !object_is(OBJECT_NODE, node) || node->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	*child = node->child;
	return CUDA_SUCCESS;
}

static CUresult add_event(ADD_PARAMS, CUevent event, int type)
{
	if (!node || !object_is(OBJECT_EVENT, event))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_add(graph, after, count, type, node);

	if (cr == CUDA_SUCCESS)
		(*node)->event = event;
	return cr;
}

SIM_EXPORT CUresult cuGraphAddEventRecordNode(ADD_PARAMS, CUevent event)
{
	SIM_ENTER();
	return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

SIM_EXPORT CUresult cuGraphAddEventWaitNode(ADD_PARAMS, CUevent event)
{
	SIM_ENTER();
	return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

SIM_EXPORT CUresult cuGraphAddMemAllocNode(ADD_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	SIM_ENTER();
	if (!node || !params || params->bytesize == 0 ||
	    params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(params->poolProps.location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	CUdeviceptr address;
	struct graph_block *block =
		graph_block_new(params->poolProps.location.id, params->bytesize, &address);
	CUresult cr = block ? graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, node)
			    : CUDA_ERROR_OUT_OF_MEMORY;

	if (cr == CUDA_SUCCESS) {
		params->dptr = address;
		(*node)->alloc.params = *params;
		(*node)->alloc.block = block;
	} else if (block) {
		graph_block_drop(block);
	}
	return cr;
}

SIM_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node,
						 CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	SIM_ENTER();
	if (!params || !object_is(OBJECT_NODE, node) || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	*params = node->alloc.params;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphAddMemFreeNode(ADD_PARAMS, CUdeviceptr address)
{
	SIM_ENTER();
	if (!node || !graph_block_is_ours(address))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_add(graph, after, count, CU_GRAPH_NODE_TYPE_MEM_FREE, node);

	if (cr == CUDA_SUCCESS)
		(*node)->free = address;
	return cr;
}

SIM_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
	SIM_ENTER();
	if (!address || !object_is(OBJECT_NODE, node) || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	*address = node->free;
	return CUDA_SUCCESS;
}

static CUresult add_any(ADD_PARAMS, CUgraphNodeParams *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return cuGraphAddKernelNode_v2(node, graph, after, count, &params->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuGraphAddMemcpyNode(node, graph, after, count, &params->memcpy.copyParams,
					    params->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuGraphAddMemsetNode(node, graph, after, count, &params->memset,
					    params->memset.ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return cuGraphAddHostNode(node, graph, after, count, &params->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return add_child(node, graph, after, count, params->child.graph, params->child.ownership == 1);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(node, graph, after, count);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return add_event(node, graph, after, count, params->event, params->type);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(node, graph, after, count, &params->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(node, graph, after, count, params->free);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

SIM_EXPORT CUresult cuGraphAddNode(ADD_PARAMS, CUgraphNodeParams *params)
{
	SIM_ENTER();
	return add_any(node, graph, after, count, params);
}

SIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				      const void *edges, size_t count, CUgraphNodeParams *params)
{
	(void)edges;
	SIM_ENTER();
	return add_any(node, graph, after, count, params);
}

SIM_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				      const void *edges, size_t count, CUgraphNodeParams *params)
{
	(void)edges;
	SIM_ENTER();
	return add_any(node, graph, after, count, params);
}

static CUresult get_kernel(CUgraphNode node, void *params, size_t bytes)
{
	if (!params || !object_is(OBJECT_NODE, node) || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(params, &node->kernel, bytes);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return get_kernel(node, params, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

SIM_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return get_kernel(node, params, sizeof *params);
}

CUresult graph_set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params, size_t bytes)
{
	CUDA_KERNEL_NODE_PARAMS whole = {0};

	if (!params || !object_is(OBJECT_NODE, node) || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&whole, params, bytes);
	CUresult cr = launch_cost(&whole, &node->duration_ns);

	if (cr == CUDA_SUCCESS)
		node->kernel = whole;
	return cr;
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
					       const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return graph_set_kernel(node, params, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
						  const CUDA_KERNEL_NODE_PARAMS *params)
{
	SIM_ENTER();
	return graph_set_kernel(node, params, sizeof *params);
}
