/* Graphs: made, copied, asked about their nodes and edges. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static bool has_node(CUgraph graph, CUgraphNode node)
{
	return object_is(OBJECT_NODE, node) && node->graph == graph;
}

CUresult graph_add(CUgraph graph, const CUgraphNode *after, size_t count, int type,
		   CUgraphNode *ret_node)
{
	if (!object_is(OBJECT_GRAPH, graph) || (count && !after))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!has_node(graph, after[i]))
			return CUDA_ERROR_INVALID_VALUE;
	CUgraphNode node = object_new(OBJECT_NODE, sizeof *node, NULL);
	CUgraphNode *copied = count ? malloc(count * sizeof *copied) : NULL;

	if (!node || (count && !copied)) {
		object_delete(OBJECT_NODE, node);
		free(copied);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (count)
		memcpy(copied, after, count * sizeof *copied);
	node->graph = graph;
	node->type = type;
	node->after = copied;
	node->after_count = count;
	*(graph->last ? &graph->last->next : &graph->first) = node;
	graph->last = node;
	graph->count++;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static void free_node(CUgraphNode node)
{
	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->child)
		graph_free(node->child);
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->alloc.block)
		graph_block_drop(node->alloc.block);
	free(node->after);
	object_delete(OBJECT_NODE, node);
}

void graph_free(CUgraph graph)
{
	while (graph->first) {
		CUgraphNode next = graph->first->next;

		free_node(graph->first);
		graph->first = next;
	}
	graph_drop_kept(graph);
	object_delete(OBJECT_GRAPH, graph);
}

/* The node of the copy that was made from this one. */
static CUgraphNode counterpart(CUgraph copy, CUgraphNode original)
{
	for (CUgraphNode node = copy->first; node; node = node->next)
		if (node->copy_of == original)
			return node;
	return NULL;
}

static bool copy_node(CUgraph copy, CUgraphNode original)
{
	CUgraphNode made;

	if (graph_add(copy, NULL, 0, original->type, &made) != CUDA_SUCCESS)
		return false;
	struct object object = made->object;

	*made = *original;
	made->object = object;
	made->graph = copy;
	made->next = NULL;
	made->copy_of = original;
	made->after = original->after_count ? malloc(original->after_count * sizeof *made->after)
					    : NULL;
	for (size_t i = 0; i < original->after_count; i++)
		made->after[i] = counterpart(copy, original->after[i]);
	if (made->type == CU_GRAPH_NODE_TYPE_GRAPH && made->child) {
		made->child = graph_copy(made->child);
		if (made->child)
			made->child->is_child = true;
	}
	if (made->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && made->alloc.block)
		graph_block_share(made->alloc.block);
	return true;
}

CUgraph graph_copy(CUgraph graph)
{
	CUgraph copy = object_new(OBJECT_GRAPH, sizeof *copy, NULL);

	for (CUgraphNode node = graph->first; copy && node; node = node->next)
		if (!copy_node(copy, node)) {
			graph_free(copy);
			return NULL;
		}
	if (copy && !graph_share_kept(copy, graph)) {
		graph_free(copy);
		return NULL;
	}
	return copy;
}

SIM_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	SIM_ENTER();
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = object_new(OBJECT_GRAPH, sizeof **graph, NULL);
	return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	SIM_ENTER();
	if (!object_is(OBJECT_GRAPH, graph) || graph->is_child)
		return CUDA_ERROR_INVALID_VALUE;
	graph_free(graph);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *copy, CUgraph graph)
{
	SIM_ENTER();
	if (!copy || !object_is(OBJECT_GRAPH, graph))
		return CUDA_ERROR_INVALID_VALUE;
	*copy = graph_copy(graph);
	return *copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph copy)
{
	SIM_ENTER();
	if (!found || !object_is(OBJECT_GRAPH, copy))
		return CUDA_ERROR_INVALID_VALUE;
	*found = counterpart(copy, original);
	return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
	SIM_ENTER();
	if (!type || !object_is(OBJECT_NODE, node))
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

/* *count: room on the way in (if there is a list), how many on the way out. */
static CUresult list_nodes(CUgraph graph, bool only_roots, CUgraphNode *nodes, size_t *count)
{
	size_t n = 0;

	if (!count || !object_is(OBJECT_GRAPH, graph))
		return CUDA_ERROR_INVALID_VALUE;
	for (CUgraphNode node = graph->first; node; node = node->next) {
		if (only_roots && node->after_count)
			continue;
		if (nodes && n < *count)
			nodes[n] = node;
		n++;
	}
	*count = n;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER();
	return list_nodes(graph, false, nodes, count);
}

SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER();
	return list_nodes(graph, true, nodes, count);
}

static CUresult list_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	size_t n = 0;

	if (!count || !object_is(OBJECT_GRAPH, graph))
		return CUDA_ERROR_INVALID_VALUE;
	for (CUgraphNode node = graph->first; node; node = node->next)
		for (size_t i = 0; i < node->after_count; i++, n++)
			if (from && to && n < *count) {
				from[n] = node->after[i];
				to[n] = node;
			}
	*count = n;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	SIM_ENTER();
	return list_edges(graph, from, to, count);
}

SIM_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
				       void *edges, size_t *count)
{
	SIM_ENTER();
	size_t room = count ? *count : 0;
	CUresult cr = list_edges(graph, from, to, count);

	if (cr == CUDA_SUCCESS && edges)
		memset(edges, 0, 8 * (room < *count ? room : *count));
	return cr;
}

static CUresult list_after(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	if (!count || !object_is(OBJECT_NODE, node))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; nodes && i < node->after_count && i < *count; i++)
		nodes[i] = node->after[i];
	*count = node->after_count;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER();
	return list_after(node, nodes, count);
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, void *edges,
						  size_t *count)
{
	(void)edges;
	SIM_ENTER();
	return list_after(node, nodes, count);
}

static CUresult depend(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	if (!object_is(OBJECT_GRAPH, graph) || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (!has_node(graph, from[i]) || !has_node(graph, to[i]) || from[i] == to[i])
			return CUDA_ERROR_INVALID_VALUE;
		CUgraphNode *more = realloc(to[i]->after, (to[i]->after_count + 1) * sizeof *more);

		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		to[i]->after = more;
		more[to[i]->after_count++] = from[i];
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
					   const CUgraphNode *to, size_t count)
{
	SIM_ENTER();
	return depend(graph, from, to, count);
}

SIM_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
					      const CUgraphNode *to, const void *edges, size_t count)
{
	(void)edges;
	SIM_ENTER();
	return depend(graph, from, to, count);
}

SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node)
{
	SIM_ENTER();
	if (!object_is(OBJECT_NODE, node))
		return CUDA_ERROR_INVALID_VALUE;
	CUgraph graph = node->graph;
	CUgraphNode previous = NULL;

	for (CUgraphNode other = graph->first; other; other = other->next) {
		if (other->next == node)
			previous = other;
		for (size_t i = 0; i < other->after_count; i++)
			if (other->after[i] == node)
				other->after[i--] = other->after[--other->after_count];
	}
	*(previous ? &previous->next : &graph->first) = node->next;
	if (graph->last == node)
		graph->last = previous;
	graph->count--;
	free_node(node);
	return CUDA_SUCCESS;
}
