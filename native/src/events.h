/*
 * Events in streams, as who measures and who waits for a free needs them: without a trace in what the program does.
 *
 * Threads: any; no lock. A capture of another thread is not disturbed.
 */
#pragma once

#include <stdbool.h>

#include "cuda_subset.h"

/* Has the driver all that takes? */
bool events_are_possible(void);

/* Made in this context, whichever is current; a stream's need not be. False: neither is. */
bool events_make_two(CUcontext context, CUevent *ret_first, CUevent *ret_second);

/* Put one into the stream; and, at any time: has the stream got there? */
CUresult events_record(CUstream stream, bool is_thread_form, CUevent event);
bool events_is_reached(CUevent event);

/* Is what is launched there recorded into a graph, not run? */
bool events_is_captured(CUstream stream, bool is_thread_form);

/*
 * Questions about events end other threads' captures, unless one says that one knows: EVENTS_RELAXED. Returns what
 * this thread had said before, for it is said again afterwards.
 */
#define EVENTS_RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */
int events_relax(int mode);
