/*
 * How long work really took: pairs of events around batches of launches, in the stream itself.
 *
 * A launch whose kind was never measured, or that takes long, is a batch of its own. Of short ones those are measured
 * that are drawn (sampling.h): alone, or with those that follow in the stream without a gap. What is
 * not measured is charged by its average. A kind that turned out to take many times what was thought is erratic
 * (costs.h): of that each launch is measured.
 *
 * Threads: any. A device's batches belong to one thread at a time, from measure_begin() to
 * measure_end(); the others do not wait for it, they launch unmeasured. So the driver may be called.
 * Never: in a stream that is being captured; nor is a capture of another thread disturbed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "context.h"

struct measure_launch {
	struct whereabouts there;
	CUstream stream;
	bool is_thread_form; /* of the entry points for per-thread default streams */
	uint64_t kind;
	uint64_t charged_ns;
	uint64_t now_ns;
	bool is_drawn; /* to be measured though it is short (sampling.h) */
};

/* Before the driver gets it. True: measure_end() has to follow. */
bool measure_begin(const struct measure_launch *launch);
void measure_end(const struct measure_launch *launch, bool is_launched);

/* Of a kind that was never measured: has the device begun with its first launch? As of the last measure_collect(). */
bool measure_is_running(CUdevice ordinal, uint64_t kind);

/* The caller is about to wait: what it launched so far is a batch. */
void measure_close(const struct measure_launch *launch);

/*
 * Correct the device's budget by what has been done meanwhile. `is_contended`: other containers are busy there, so
 * that measures are upper bounds.
 */
void measure_collect(const struct whereabouts *there, struct hamid_budget *budget, uint64_t rate,
		     bool is_contended);

/*
 * Since when the device has had work of ours that it has not done: as of the last measure_collect(), by
 * what is measured; 0: nothing, or only what measure_give_up() was called for.
 */
uint64_t measure_behind_since_ns(CUdevice ordinal);

/* Are so many batches on their way that no other can be? */
bool measure_is_full(CUdevice ordinal);

/* The oldest of it may wait for what we hold back: it does not count any more. */
void measure_give_up(CUdevice ordinal);
