/*
 * When work was done, by the device's own clock: an event behind so much of it, whose GPU time counts in the slots
 * of time just before it was reached.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_api.h"

#define MUST(call) \
	do { \
		const int result_ = (int)(call); \
		if (result_) { \
			fprintf(stderr, "%s: %d\n", #call, result_); \
			exit(3); \
		} \
	} while (0)

#define MARKS 2048 /* on their way; more than a device's queue holds */
#define MARK_EVERY_NS 5000000ull /* seldom: launches take the host longer while an event is waited for */
#define SLOTS_MAX 6000

static struct mark {
	CUevent event;
	uint64_t gpu_ns;
} marks[MARKS];
static uint64_t marked, reached;
static uint64_t unmarked_ns; /* work since the last mark */
static CUevent beginning;

static uint64_t slot_ns = 1000000000;
static uint64_t slots[SLOTS_MAX + 1]; /* GPU time done in each; the last: later */
static uint64_t first_end_ns, first_gpu_ns, last_end_ns; /* of marks, since the beginning */

static inline void marks_begin(void)
{
	MUST(cuEventCreate(&beginning, 0));
	MUST(cuEventRecord(beginning, NULL));
}

static inline void count_done(uint64_t end_ns, uint64_t gpu_ns)
{
	uint64_t at = end_ns > gpu_ns ? end_ns - gpu_ns : 0;
	while (at < end_ns) {
		const uint64_t slot = at / slot_ns, next_ns = (slot + 1) * slot_ns;
		const uint64_t until = next_ns < end_ns ? next_ns : end_ns;
		slots[slot < SLOTS_MAX ? slot : SLOTS_MAX] += until - at;
		at = until;
	}
}

/* Whatever was reached by now. */
static inline void marks_look(void)
{
	for (; reached < marked; reached++) {
		const struct mark *mark = &marks[reached % MARKS];
		float milliseconds;
		if (cuEventQuery(mark->event) != CUDA_SUCCESS)
			return;
		MUST(cuEventElapsedTime(&milliseconds, beginning, mark->event));
		last_end_ns = (uint64_t)((double)milliseconds * 1e6);
		if (!reached) {
			first_end_ns = last_end_ns;
			first_gpu_ns = mark->gpu_ns;
		}
		count_done(last_end_ns, mark->gpu_ns);
	}
}

static inline void marks_set(CUstream stream)
{
	struct mark *mark = &marks[marked % MARKS];
	if (marked - reached == MARKS)
		exit(5);
	if (!mark->event)
		MUST(cuEventCreate(&mark->event, 0));
	MUST(cuEventRecord(mark->event, stream));
	mark->gpu_ns = unmarked_ns;
	unmarked_ns = 0;
	marked++;
	marks_look();
}

/* So much was launched, in that stream. */
static inline void marks_note(uint64_t gpu_ns, CUstream stream)
{
	unmarked_ns += gpu_ns;
	if (unmarked_ns >= MARK_EVERY_NS)
		marks_set(stream);
}

/* After the last of it. */
static inline void marks_end(CUstream stream)
{
	if (unmarked_ns)
		marks_set(stream);
	MUST(cuCtxSynchronize());
	marks_look();
}
