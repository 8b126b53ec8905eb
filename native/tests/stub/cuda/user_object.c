/*
 * Objects of the program's that graphs keep, and executables made of them: when nobody refers to one any more, the
 * program's own function is called, here by whoever let go last.
 */
#include <stdlib.h>

#include "graph.h"

#define NO_DESTRUCTOR_SYNC 1u
#define MOVE 1u

struct CUuserObject_st {
	struct object object;
	unsigned int count; /* atomic */
	void *pointer;
	CUhostFn destroy;
};

struct graph_kept {
	CUuserObject object;
	unsigned int count;
	struct graph_kept *next;
};

static void hold(CUuserObject object, unsigned int count)
{
	__atomic_add_fetch(&object->count, count, __ATOMIC_ACQ_REL);
}

static void let_go(CUuserObject object, unsigned int count)
{
	const CUhostFn destroy = object->destroy;
	void *pointer = object->pointer;

	if (__atomic_sub_fetch(&object->count, count, __ATOMIC_ACQ_REL))
		return;
	object_delete(OBJECT_USER, object);
	destroy(pointer);
}

static bool keep(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct graph_kept *kept = malloc(sizeof *kept);

	if (kept) {
		*kept = (struct graph_kept){.object = object, .count = count, .next = graph->kept};
		graph->kept = kept;
	}
	return kept;
}

void graph_drop_kept(CUgraph graph)
{
	while (graph->kept) {
		struct graph_kept *kept = graph->kept;

		graph->kept = kept->next;
		let_go(kept->object, kept->count);
		free(kept);
	}
}

bool graph_share_kept(CUgraph copy, CUgraph graph)
{
	for (struct graph_kept *kept = graph->kept; kept; kept = kept->next) {
		if (!keep(copy, kept->object, kept->count))
			return false;
		hold(kept->object, kept->count);
	}
	return true;
}

SIM_EXPORT CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy,
				       unsigned int count, unsigned int flags)
{
	SIM_ENTER();
	if (!object || !destroy || count == 0 || flags != NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	CUuserObject made = object_new(OBJECT_USER, sizeof *made, NULL);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->count = count;
	made->pointer = pointer;
	made->destroy = destroy;
	*object = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	SIM_ENTER();
	if (!object_is(OBJECT_USER, object) || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	hold(object, count);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	SIM_ENTER();
	if (!object_is(OBJECT_USER, object) || count == 0 || count > object->count)
		return CUDA_ERROR_INVALID_VALUE;
	let_go(object, count);
	return CUDA_SUCCESS;
}

/* The caller's references become the graph's, or the graph gets its own. */
SIM_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
					    unsigned int flags)
{
	SIM_ENTER();
	if (!object_is(OBJECT_GRAPH, graph) || !object_is(OBJECT_USER, object) || count == 0 ||
	    (flags & ~MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	if (!keep(graph, object, count))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!(flags & MOVE))
		hold(object, count);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	SIM_ENTER();
	if (!object_is(OBJECT_GRAPH, graph) || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct graph_kept **at = &graph->kept; *at; at = &(*at)->next) {
		struct graph_kept *kept = *at;

		if (kept->object != object || kept->count < count)
			continue;
		kept->count -= count;
		if (kept->count == 0) {
			*at = kept->next;
			free(kept);
		}
		let_go(object, count);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}
