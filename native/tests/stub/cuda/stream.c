/* Streams: made, asked, waited for. */
#include "stream.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "graph.h"
#include "timeline.h"

#define LEGACY ((CUstream)1)
#define PER_THREAD ((CUstream)2)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long last_id;

static CUstream make(CUcontext context, unsigned int flags, int priority)
{
	CUstream stream = object_new(OBJECT_STREAM, sizeof *stream, context);

	if (!stream)
		return NULL;
	stream->flags = flags;
	stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	stream->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	return stream;
}

static CUstream default_of(CUcontext context)
{
	CUstream stream = __atomic_load_n(&context->default_stream, __ATOMIC_ACQUIRE);

	if (stream)
		return stream;
	pthread_mutex_lock(&mutex);
	if (!context->default_stream)
		__atomic_store_n(&context->default_stream, make(context, 0, 0), __ATOMIC_RELEASE);
	stream = context->default_stream;
	pthread_mutex_unlock(&mutex);
	return stream;
}

CUresult stream_resolve(CUstream handle, CUstream *ret_stream)
{
	CUcontext context;

	if (handle && handle != LEGACY && handle != PER_THREAD) {
		*ret_stream = handle;
		return object_is(OBJECT_STREAM, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	}
	CUresult cr = context_current(&context);

	if (cr == CUDA_SUCCESS)
		*ret_stream = default_of(context);
	return cr != CUDA_SUCCESS || *ret_stream ? cr : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult stream_check(CUstream handle)
{
	CUstream stream;

	return stream_resolve(handle, &stream);
}

CUdevice stream_device(CUstream handle, CUcontext current)
{
	CUstream stream;

	return stream_resolve(handle, &stream) == CUDA_SUCCESS ? stream->object.context->device
								: current->device;
}

CUgraph stream_capture(CUstream handle)
{
	CUstream stream;

	return stream_resolve(handle, &stream) == CUDA_SUCCESS ? stream->graph : NULL;
}

void stream_submit(CUstream stream, uint64_t duration_ns)
{
	uint64_t end = timeline_submit(stream->object.context->device, duration_ns);

	__atomic_store_n(&stream->position, end, __ATOMIC_RELEASE);
}

bool stream_is_idle(CUstream stream)
{
	uint64_t position = __atomic_load_n(&stream->position, __ATOMIC_ACQUIRE);

	return timeline_is_done(stream->object.context->device, position) &&
	       __atomic_load_n(&stream->callbacks, __ATOMIC_ACQUIRE) == 0;
}

void stream_wait(CUstream stream)
{
	timeline_wait(stream->object.context->device,
		      __atomic_load_n(&stream->position, __ATOMIC_ACQUIRE));
	while (__atomic_load_n(&stream->callbacks, __ATOMIC_ACQUIRE))
		sched_yield();
}

static CUresult create(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!stream || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = make(context, flags, priority);
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	SIM_ENTER();
	return create(stream, flags, 0);
}

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	SIM_ENTER();
	return create(stream, flags, priority);
}

static void destroy(CUstream stream)
{
	if (stream->graph)
		stream_end_capture(stream);
	free(stream->heads);
	object_delete(OBJECT_STREAM, stream);
}

SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	SIM_ENTER();
	if (!object_is(OBJECT_STREAM, stream))
		return CUDA_ERROR_INVALID_HANDLE;
	destroy(stream);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamDestroy(CUstream stream)
{
	return cuStreamDestroy_v2(stream);
}

SIM_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
	CUstream stream;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS && stream->graph) {
		stream->origin->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (cr == CUDA_SUCCESS)
		cr = stream_unsafe_call(stream->object.context);
	if (cr != CUDA_SUCCESS)
		return cr;
	stream_wait(stream);
	pool_at_sync(stream->object.context->device);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamQuery(CUstream handle)
{
	CUstream stream;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (stream->graph)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult synchronise(CUcontext context)
{
	CUresult cr = stream_unsafe_call(context);

	if (cr != CUDA_SUCCESS)
		return cr;
	timeline_wait_all(context->device);
	callbacks_wait_all();
	pool_at_sync(context->device);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSynchronize(void)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	return synchronise(context);
}

SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext of)
{
	CUcontext context;

	SIM_ENTER();
	CUresult cr = context_or_current(of, &context);

	return cr == CUDA_SUCCESS ? synchronise(context) : cr;
}

/* Streams and events of the context; what is queued runs to its end. */
void stream_drop_context(CUcontext context)
{
	CUstream stream;
	CUevent event;

	timeline_wait_all(context->device);
	callbacks_wait_all();
	while ((stream = object_of_context(OBJECT_STREAM, context)))
		destroy(stream);
	while ((event = object_of_context(OBJECT_EVENT, context))) {
		free(event->heads);
		object_delete(OBJECT_EVENT, event);
	}
	context->default_stream = NULL;
	pool_at_sync(context->device);
}
