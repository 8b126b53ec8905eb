/* Events: a place in the queue of their device, and when the device got there. */
#include <stdlib.h>

#include "stream.h"
#include "timeline.h"

#define EVENT_DISABLE_TIMING 2u
#define EVENT_FLAGS 7u

SIM_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!event || (flags & ~EVENT_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	*event = object_new(OBJECT_EVENT, sizeof **event, context);
	if (!*event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*event)->flags = flags;
	(*event)->device = context->device;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	timeline_forget(event);
	free(event->heads);
	object_delete(OBJECT_EVENT, event);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventDestroy(CUevent event)
{
	return cuEventDestroy_v2(event);
}

static CUresult record(CUevent event, CUstream handle)
{
	CUstream stream;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS && !object_is(OBJECT_EVENT, event))
		cr = CUDA_ERROR_INVALID_HANDLE;
	if (cr != CUDA_SUCCESS)
		return cr;
	if (stream->graph)
		return capture_record_event(stream, event);
	event->graph = NULL;
	event->device = stream->object.context->device;
	event->position = __atomic_load_n(&stream->position, __ATOMIC_ACQUIRE);
	event->is_recorded = true;
	timeline_watch(event);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	SIM_ENTER();
	return record(event, stream);
}

SIM_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	SIM_ENTER();
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(event, stream);
}

/* An event that was never recorded is done. */
static bool is_done(CUevent event)
{
	return !event->is_recorded || timeline_is_done(event->device, event->position);
}

SIM_EXPORT CUresult cuEventQuery(CUevent event)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->graph)
		return CUDA_ERROR_CAPTURED_EVENT;
	return is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->graph)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (event->is_recorded) {
		timeline_wait(event->device, event->position);
		pool_at_sync(event->device);
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EVENT, start) || !object_is(OBJECT_EVENT, end))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start->is_recorded || !end->is_recorded ||
	    ((start->flags | end->flags) & EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!is_done(start) || !is_done(end))
		return CUDA_ERROR_NOT_READY;
	int64_t ns = (int64_t)(timeline_reached_ns(end) - timeline_reached_ns(start));

	*milliseconds = (float)((double)ns / 1e6);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(milliseconds, start, end);
}

/* All streams of a device share one queue: only waits across devices take time. */
SIM_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	CUstream stream;

	SIM_ENTER();
	CUresult cr = stream_resolve(handle, &stream);

	if (cr == CUDA_SUCCESS && !object_is(OBJECT_EVENT, event))
		cr = CUDA_ERROR_INVALID_HANDLE;
	if (cr != CUDA_SUCCESS)
		return cr;
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->graph || stream->graph)
		return capture_wait_event(stream, event);
	if (!event->is_recorded)
		return CUDA_SUCCESS;
	if (event->device != stream->object.context->device)
		timeline_wait(event->device, event->position);
	else if (event->position > stream->position)
		__atomic_store_n(&stream->position, event->position, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}
