/*
 * Streams. All work of a process on a device is one queue (../engine.h), so streams only remember
 * how far in it their last piece of work reaches.
 */
#pragma once

#include "context.h"

enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };

struct CUstream_st {
	struct object object;
	unsigned int flags;
	int priority;
	unsigned long long id;
	uint64_t position; /* of the end of its last work */
	int callbacks;     /* host functions that have not run; atomic */
	/* While it captures: */
	CUgraph graph;
	CUstream origin; /* the stream that began the capture */
	int mode;
	bool is_invalid;
	bool owns_graph;
	unsigned long long capture_id;
	CUgraphNode *heads; /* that the next node comes after */
	size_t head_count;
};

struct CUevent_st {
	struct object object;
	unsigned int flags;
	bool is_recorded;
	CUdevice device;
	uint64_t position;
	uint64_t reached_ns; /* 0: not known yet */
	CUgraph graph;       /* it was recorded in a capture of this */
	CUstream captured_on;
	CUgraphNode *heads;
	size_t head_count;
};

/* NULL, 1 (legacy) and 2 (per thread) are the default stream; INVALID_HANDLE for what is no stream. */
CUresult stream_resolve(CUstream handle, CUstream *ret_stream);
CUresult stream_check(CUstream handle);
CUdevice stream_device(CUstream handle, CUcontext current);

/* The graph that the stream records into instead of running; NULL when it does not capture. */
CUgraph stream_capture(CUstream handle);

/* Put work of this many nanoseconds into the stream's queue. */
void stream_submit(CUstream stream, uint64_t duration_ns);
bool stream_is_idle(CUstream stream);
void stream_wait(CUstream stream);

/* What comes next in the capture comes after these nodes instead (capture.c). */
CUresult stream_set_heads(CUstream stream, CUgraphNode *nodes, size_t count);
void stream_end_capture(CUstream stream);

/* Calls that wait for the device are refused while a stream captures. */
CUresult stream_unsafe_call(CUcontext context);

/* Memory pools give back what they do not keep, at sync points. */
void pool_at_sync(CUdevice device);

/*
 * A plain block is given back when the stream gets there, as seen at the next sync point or when memory is taken (memory.c).
 * INVALID_VALUE when none begins there.
 */
CUresult memory_give_later(uint64_t address, CUstream handle);
void memory_give_reached(void);

/* Is the event of a capture joined by this stream? (capture.c) */
CUresult capture_wait_event(CUstream stream, CUevent event);
CUresult capture_record_event(CUstream stream, CUevent event);
