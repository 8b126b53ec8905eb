/*
 * What a simulated device computes, shared by all processes through the account's file.
 *
 * Each process has one channel per device. Work is queued into it as nanoseconds; the device runs
 * one channel at a time, and changes to the next that has work after each time slice, as a real
 * one does between processes. Nothing runs by itself: whoever looks, first moves the device up to
 * the present.
 *
 * Time is CLOCK_MONOTONIC; with HAMID_SIM_CLOCK=virtual it is the engine's own, which stands still
 * until somebody waits. With HAMID_SIM_CLOCK=shared it stands still until every process that has a channel waits, and
 * goes on to where the first of them wakes: so several live by it, each of one thread, on one device.
 *
 * Threads and processes: one robust lock per engine. A process that dies with the lock leaves the
 * engine as it is: all figures in it stay in range, whatever it had half done.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ENGINE_CLOCK_ENV "HAMID_SIM_CLOCK"
#define ENGINE_SLICE_ENV "HAMID_SIM_SLICE_US"
#define ENGINE_SLICE_NS 2000000ull
#define ENGINE_WINDOW_ENV "HAMID_SIM_WINDOW_MS"
#define ENGINE_WINDOW_NS 166666667ull /* over which NVML's utilisation is taken */
#define ENGINE_CHANNELS 64
#define ENGINE_RUNS 64
#define ENGINE_UUID 48

/* A stretch of time in which a channel ran without a break. */
struct engine_run {
	uint64_t start_ns, position, length_ns;
};

struct engine_channel {
	uint64_t owner; /* fingerprint, as in state.h; 0: free */
	uint32_t pid;
	uint32_t padding;
	uint64_t wake_ns; /* of a shared clock: it waits until then; 0, or past: it runs */
	uint64_t queued_ns, done_ns;   /* positions */
	uint64_t busy_ns, was_busy_ns; /* in this window, in the one before */
	uint64_t run_count;
	struct engine_run runs[ENGINE_RUNS]; /* the last ones, by count */
};

struct engine {
	union {
		pthread_mutex_t mutex;
		uint8_t reserved[64];
	} lock;
	char device[ENGINE_UUID]; /* "" : unused */
	uint64_t now_ns;          /* it has been moved up to here */
	uint64_t turn;            /* channel that runs */
	uint64_t slice_left_ns;
	uint64_t window_ns; /* when this window began */
	uint64_t busy_ns, was_busy_ns;
	uint64_t total_busy_ns;
	uint64_t looked_ns; /* when the dead were last looked for */
	uint64_t channel_count; /* those behind were never used */
	uint32_t moved; /* a futex: how often a shared clock was */
	uint32_t padding[9];
	struct engine_channel channels[ENGINE_CHANNELS];
};

struct state;

/* The device's engine, made if need be; NULL when the file is read-only or full. */
struct engine *engine_find(struct state *state, const char *device, bool create);

/* This process's channel, made if need be; NULL when all are taken. */
struct engine_channel *engine_join(struct state *state, struct engine *engine);

/* Queue work; returns the position of its end. */
uint64_t engine_submit(struct state *state, struct engine *engine, struct engine_channel *channel,
		       uint64_t duration_ns);

/* Is it there? If not, *ret_left_ns is how long it takes at least. */
bool engine_reached(struct state *state, struct engine *engine, struct engine_channel *channel,
		    uint64_t position, uint64_t *ret_left_ns);

/* Sleep until it may be there; a virtual clock is moved instead, a shared one by the last to sleep. */
void engine_sleep(struct state *state, struct engine *engine, struct engine_channel *channel, uint64_t ns);

/* When the channel got there (it has); the engine's lock is taken. */
uint64_t engine_time_of(struct engine *engine, struct engine_channel *channel, uint64_t position);

uint64_t engine_now_ns(struct engine *engine);
bool engine_is_virtual(void);

/* Per mille of the last whole window; `channel` NULL: all of them. Looks at the device first. */
uint32_t engine_utilisation(struct state *state, struct engine *engine,
			    const struct engine_channel *channel);
