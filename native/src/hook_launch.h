/*
 * Charging of launches, for whatever starts work: before and after the driver's call.
 *
 * A process without a cap pays one relaxed load, and every 128th launch a look at the control page. With
 * one, a thread takes some time out of the budget at once, and short launches are paid from that.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "measure.h"
#include "real.h"

struct launch_ticket {
	bool is_measured;
	bool is_charged;
	uint64_t rate;
	struct hamid_budget *budget;
	struct measure_launch launch;
};

struct launch_what {
	const void *handle; /* of a function or an executable graph */
	uint64_t blocks;    /* 0: a graph */
	CUstream stream;
	bool is_thread_form;
};

#define LAUNCH_LOOK_EVERY 128

extern _Atomic uint64_t launch_capped; /* devices that have a cap, or whose page cannot be trusted, by ordinal */
extern __thread __attribute__((tls_model("initial-exec"))) uint32_t launch_until_look;

/* Time that a thread has taken out of a device's budget. It is lost with the thread. */
struct launch_credit {
	const void *handle; /* the launch that was paid from it last, and what that costs */
	uint64_t blocks;
	CUstream stream;
	CUcontext context;
	uint64_t cost_ns; /* 0: no launch was */
	uint64_t left_ns;
	struct hamid_budget *budget; /* compared, for it may be unmapped after a fork */
};

extern __thread __attribute__((tls_model("initial-exec"))) struct launch_credit launch_credit;

/* Is it paid for by what this thread has left? Then it is charged. */
bool launch_from_credit(const struct launch_what *what);

/* The same, quickly for a launch like the one before in a stream that says which context it is of. */
static inline bool launch_is_paid(const struct launch_what *what)
{
	struct launch_credit *credit = &launch_credit;
	CUcontext current;
	if (what->handle != credit->handle || what->blocks != credit->blocks ||
	    what->stream != credit->stream || credit->cost_ns - 1 >= credit->left_ns)
		return launch_from_credit(what);
	if ((uintptr_t)what->stream <= 2 &&
	    (real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != credit->context))
		return false;
	credit->left_ns -= credit->cost_ns;
	return true;
}

/* Wait until it may start, and charge it. An error: it may not. */
CUresult launch_admit(const struct launch_what *what, struct launch_ticket *ret_ticket);
void launch_settle(struct launch_ticket *ticket, CUresult cr);

/* The next launch of this thread looks at the control page. */
static inline void launch_look_soon(void)
{
	launch_until_look = 0;
}

/* An error: it may not be launched. */
static inline CUresult launch_begin(const struct launch_what *what, struct launch_ticket *ret_ticket)
{
	ret_ticket->is_charged = false;
	if (__builtin_expect(launch_until_look-- == 0, 0) ||
	    (atomic_load_explicit(&launch_capped, memory_order_relaxed) && !launch_is_paid(what)))
		return launch_admit(what, ret_ticket);
	return CUDA_SUCCESS;
}

static inline CUresult launch_end(struct launch_ticket *ticket, CUresult cr)
{
	if (__builtin_expect(ticket->is_charged, 0))
		launch_settle(ticket, cr);
	return cr;
}
