/*
 * Capture: work put into a stream becomes nodes of a graph instead of running.
 *
 * A stream that waits for an event of a capturing stream joins its capture. While a capture in global mode
 * goes on, calls that could wait for the device are refused to everybody who has not asked for a
 * laxer mode; in thread-local mode, to the capturing thread.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static int global_captures; /* atomic */
static __thread int thread_captures;
static __thread int thread_mode = CAPTURE_GLOBAL;
static unsigned long long last_id;

CUresult stream_unsafe_call(CUcontext context)
{
	(void)context;
	if (thread_mode == CAPTURE_RELAXED)
		return CUDA_SUCCESS;
	bool is_refused = thread_captures > 0 ||
			  (thread_mode == CAPTURE_GLOBAL &&
			   __atomic_load_n(&global_captures, __ATOMIC_ACQUIRE) > 0);

	return is_refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult stream_set_heads(CUstream stream, CUgraphNode *nodes, size_t count)
{
	CUgraphNode *copied = malloc((count ? count : 1) * sizeof *copied);

	if (!copied)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count)
		memcpy(copied, nodes, count * sizeof *copied);
	free(stream->heads);
	stream->heads = copied;
	stream->head_count = count;
	return CUDA_SUCCESS;
}

CUresult graph_capture_node(CUgraph graph, CUstream stream, int type, CUgraphNode *ret_node)
{
	if (stream->origin->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	CUresult cr = graph_add(graph, stream->heads, stream->head_count, type, ret_node);

	return cr == CUDA_SUCCESS ? stream_set_heads(stream, ret_node, 1) : cr;
}

CUresult graph_capture_alloc(CUgraph graph, CUstream stream, CUdevice device, uint64_t bytes,
			     CUdeviceptr *ret_address)
{
	CUgraphNode node;
	struct graph_block *block = graph_block_new(device, bytes, ret_address);

	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult cr = graph_capture_node(graph, stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node);

	if (cr != CUDA_SUCCESS) {
		graph_block_drop(block);
		return cr;
	}
	node->alloc.block = block;
	node->alloc.params = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
		.bytesize = bytes,
		.dptr = *ret_address};
	return CUDA_SUCCESS;
}

CUresult graph_capture_free(CUgraph graph, CUstream stream, CUdeviceptr address)
{
	CUgraphNode node;

	if (!graph_block_is_ours(address))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = graph_capture_node(graph, stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &node);

	if (cr == CUDA_SUCCESS)
		node->free = address;
	return cr;
}

static CUresult begin(CUstream handle, CUgraph graph, int mode)
{
	CUstream stream;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle || handle == (CUstream)1)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* not of the legacy stream */
	if (stream->graph)
		return CUDA_ERROR_INVALID_VALUE;
	stream->owns_graph = !graph;
	stream->graph = graph ? graph : object_new(OBJECT_GRAPH, sizeof *graph, NULL);
	if (!stream->graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->origin = stream;
	stream->mode = mode;
	stream->is_invalid = false;
	stream->capture_id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	if (mode == CAPTURE_GLOBAL)
		__atomic_add_fetch(&global_captures, 1, __ATOMIC_ACQ_REL);
	if (mode != CAPTURE_RELAXED)
		thread_captures++;
	return stream_set_heads(stream, NULL, 0);
}

SIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	SIM_ENTER();
	return begin(stream, NULL, mode);
}

SIM_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	SIM_ENTER();
	return begin(stream, NULL, CAPTURE_GLOBAL);
}

SIM_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
						const CUgraphNode *after, const void *edges,
						size_t count, int mode)
{
	(void)edges;
	SIM_ENTER();
	if (!object_is(OBJECT_GRAPH, graph) || (count && !after))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = begin(stream, graph, mode);

	return cr == CUDA_SUCCESS ? stream_set_heads(stream, (CUgraphNode *)after, count) : cr;
}

/* Those that joined leave when the capture that they joined ends. */
static void leave(void *handle, void *origin)
{
	CUstream stream = handle;

	if (stream->origin != origin || stream == origin)
		return;
	stream->graph = NULL;
	stream->origin = NULL;
}

void stream_end_capture(CUstream stream)
{
	if (stream->origin == stream) {
		object_each(OBJECT_STREAM, leave, stream);
		if (stream->mode == CAPTURE_GLOBAL)
			__atomic_sub_fetch(&global_captures, 1, __ATOMIC_ACQ_REL);
		if (stream->mode != CAPTURE_RELAXED && thread_captures > 0)
			thread_captures--;
	}
	stream->graph = NULL;
	stream->origin = NULL;
}

SIM_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CUstream stream;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->graph)
		return (CUresult)401; /* CUDA_ERROR_ILLEGAL_STATE */
	if (stream->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	CUgraph made = stream->graph;
	bool is_invalid = stream->is_invalid;

	stream_end_capture(stream);
	*graph = is_invalid ? NULL : made;
	if (is_invalid && stream->owns_graph)
		graph_free(made);
	return is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static int status_of(CUstream stream)
{
	return !stream->graph ? 0 : stream->origin->is_invalid ? 2 : 1;
}

SIM_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
	CUstream stream;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS && !status)
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr == CUDA_SUCCESS)
		*status = status_of(stream);
	return cr;
}

static CUresult capture_info(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **heads, size_t *count)
{
	CUstream stream;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = status_of(stream);
	if (*status != 1)
		return CUDA_SUCCESS;
	if (id)
		*id = stream->origin->capture_id;
	if (graph)
		*graph = stream->graph;
	if (heads)
		*heads = stream->heads;
	if (count)
		*count = stream->head_count;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, cuuint64_t *id)
{
	SIM_ENTER();
	return capture_info(stream, status, id, NULL, NULL, NULL);
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id,
					      CUgraph *graph, const CUgraphNode **heads,
					      size_t *count)
{
	SIM_ENTER();
	return capture_info(stream, status, id, graph, heads, count);
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, cuuint64_t *id,
					      CUgraph *graph, const CUgraphNode **heads,
					      const void **edges, size_t *count)
{
	SIM_ENTER();
	if (edges)
		*edges = NULL;
	return capture_info(stream, status, id, graph, heads, count);
}

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	SIM_ENTER();
	if (!mode || *mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	int before = thread_mode;

	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult capture_record_event(CUstream stream, CUevent event)
{
	CUgraphNode *heads = malloc((stream->head_count + 1) * sizeof *heads);

	if (!heads)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->head_count)
		memcpy(heads, stream->heads, stream->head_count * sizeof *heads);
	free(event->heads);
	event->heads = heads;
	event->head_count = stream->head_count;
	event->graph = stream->graph;
	event->captured_on = stream->origin;
	return CUDA_SUCCESS;
}

CUresult capture_wait_event(CUstream stream, CUevent event)
{
	if (!event->graph) /* a wait for something outside becomes nothing: it is past */
		return CUDA_SUCCESS;
	if (!object_is(OBJECT_STREAM, event->captured_on) ||
	    event->captured_on->graph != event->graph)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (!stream->graph) {
		stream->graph = event->graph;
		stream->origin = event->captured_on;
		return stream_set_heads(stream, event->heads, event->head_count);
	}
	if (stream->graph != event->graph)
		return (CUresult)902; /* CUDA_ERROR_STREAM_CAPTURE_MERGE */
	size_t count = stream->head_count + event->head_count;
	CUgraphNode *both = malloc((count + 1) * sizeof *both);

	if (!both)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(both, stream->heads, stream->head_count * sizeof *both);
	memcpy(both + stream->head_count, event->heads, event->head_count * sizeof *both);
	CUresult cr = stream_set_heads(stream, both, count);

	free(both);
	return cr;
}
