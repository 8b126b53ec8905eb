/*
 * Time on the devices: this process's queue on each, in the engine that all processes share.
 *
 * A position is how much work a process has queued on a device since it began, in nanoseconds of
 * device time; work is done when the engine has got there.
 *
 * Threads: any; one lock per device inside.
 */
#pragma once

#include "stream.h"

/* Queue work; waits while a thousand launches are queued. The position of its end. */
uint64_t timeline_submit(CUdevice device, uint64_t duration_ns);

bool timeline_is_done(CUdevice device, uint64_t position);
void timeline_wait(CUdevice device, uint64_t position);

/* Wait for all that this process has queued. */
void timeline_wait_all(CUdevice device);

/* Remember when the event's position is reached; forget an event that ends. */
void timeline_watch(CUevent event);
void timeline_forget(CUevent event);
uint64_t timeline_reached_ns(CUevent event);

/* The first device's clock: virtual or not, now, and waiting on it. Exported beside the driver's own names. */
SIM_EXPORT bool hamid_sim_is_virtual(void);
SIM_EXPORT uint64_t hamid_sim_now_ns(void);
SIM_EXPORT void hamid_sim_sleep(uint64_t ns);

/* Host functions (callbacks.c): run on a thread of their own once the stream has got there. */
CUresult callbacks_add(CUstream stream, CUhostFn function, void *data);
void callbacks_wait_all(void);
