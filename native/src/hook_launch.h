/*
 * Charging of launches, for whatever starts work: before and after the driver's call.
 *
 * A process without a cap pays one relaxed load, and every 128th launch a look at the control page. With
 * one, a thread takes some time out of the budget at once, and short launches are paid from that. A wait of a
 * moment, as between launches that are waited for one by one, leaves both as they are.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "budget.h"
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
	const void *handle; /* of a function or an executable graph; or it names a kind of copy (hook_fill.c) */
	uint64_t blocks;    /* 0: a graph; of a copy, bytes */
	CUstream stream;
	bool is_thread_form;
};

#define LAUNCH_LOOK_EVERY 128
#define LAUNCH_FRESH_NS 1000000ull /* for so long a look is good for after a wait, and for a tick of the kernel's more */

extern __thread __attribute__((tls_model("initial-exec"))) uint32_t launch_until_look;

/* This thread's last look. */
struct launch_looked {
	uint64_t at_ns;
	uint32_t until_look; /* as it was then; so it is known how many launches there were since */
};

extern __thread __attribute__((tls_model("initial-exec"))) struct launch_looked launch_looked;

/* Time that a thread has taken out of a device's budget. It is lost with the thread. */
struct launch_credit {
	const void *handle; /* the launch that was paid from it last, and what that costs */
	uint64_t blocks;
	CUstream stream;
	CUcontext context;
	uint64_t cost_ns; /* 0: no launch was */
	uint64_t left_ns;
	uint64_t taken_ns;
	uint64_t launched_ns; /* by this thread, as far as it matters */
	struct hamid_budget *budget; /* compared, for it may be unmapped after a fork */
};

extern __thread __attribute__((tls_model("initial-exec"))) struct launch_credit launch_credit;

/* Is it paid for by what this thread has left? Then it is charged. */
bool launch_from_credit(const void *handle, uint64_t blocks, CUstream stream);

/* After a launch that was charged, and is not measured. */
void launch_take_credit(const struct launch_ticket *ticket);

/* What is left; `rate`: at which it was taken. Returns whether it was any use. */
bool launch_give_credit_back(struct hamid_budget *budget, uint64_t rate);

/* Of a stream that every context has: is it that of the credit's context? */
bool launch_is_in_context(void);

/* Is the stream of the credit's device? */
static inline bool launch_is_there(CUstream stream)
{
	return (uintptr_t)stream > 2 ||
	       !atomic_load_explicit(&context_has_several, memory_order_relaxed) ||
	       launch_is_in_context();
}

/* The same, quickly for a launch like the one before. */
static inline bool launch_is_paid(const void *handle, uint64_t blocks, CUstream stream)
{
	struct launch_credit *credit = &launch_credit;
	if (handle != credit->handle || blocks != credit->blocks || stream != credit->stream ||
	    credit->cost_ns - 1 >= credit->left_ns)
		return launch_from_credit(handle, blocks, stream);
	if (!launch_is_there(stream))
		return false;
	credit->left_ns -= credit->cost_ns;
	return true;
}

/* Find out whether launches have to look at all, for what may be none: nothing is charged. */
void launch_look(CUstream stream);

/* Wait until it may start, and charge it. An error: it may not. */
CUresult launch_admit(const struct launch_what *what, struct launch_ticket *ret_ticket);
void launch_settle(struct launch_ticket *ticket, CUresult cr);

/* The next launch of this thread looks at the control page. */
static inline void launch_look_soon(void)
{
	launch_looked.until_look -= launch_until_look;
	launch_until_look = 0;
}

/* It has waited: for a while, and all may be different. */
static inline void launch_waited(void)
{
	if (launch_until_look && budget_about_ns() >= launch_looked.at_ns + LAUNCH_FRESH_NS)
		launch_look_soon();
}

/* Need nobody be asked? What a program without a cap pays, and most launches of one with a cap. */
static inline bool launch_is_free(const void *handle, uint64_t blocks, CUstream stream)
{
	if (__builtin_expect(launch_until_look-- == 0, 0))
		return false;
	return !atomic_load_explicit(&launch_capped, memory_order_relaxed) ||
	       launch_is_paid(handle, blocks, stream);
}

/* An error: it may not be launched. */
static inline CUresult launch_begin(const struct launch_what *what, struct launch_ticket *ret_ticket)
{
	ret_ticket->is_charged = false;
	if (launch_is_free(what->handle, what->blocks, what->stream))
		return CUDA_SUCCESS;
	return launch_admit(what, ret_ticket);
}

static inline CUresult launch_end(struct launch_ticket *ticket, CUresult cr)
{
	if (__builtin_expect(ticket->is_charged, 0))
		launch_settle(ticket, cr);
	return cr;
}

/* The rest of a hook: run `call` of the real `symbol`, if `begin` (launch_begin, launch_admit) lets it. */
#define LAUNCH_RETURN(begin, symbol, call, function_, blocks_, stream_, is_thread) \
	const struct launch_what what = { \
		.handle = (function_), \
		.blocks = (blocks_), \
		.stream = (stream_), \
		.is_thread_form = (is_thread), \
	}; \
	struct launch_ticket ticket; \
	const CUresult may = begin(&what, &ticket); \
	return may == CUDA_SUCCESS ? launch_end(&ticket, real.symbol call) : may

/*
 * The hook `symbol`: run `call` of the real one as a launch. Most are free, and then a jump: so all that takes room on
 * the stack is in a function of its own. A thread's first is never free; so `real` is filled when one is.
 */
#define LAUNCH_HOOK(symbol, params, call, function_, blocks_, stream_, is_thread) \
	static __attribute__((noinline)) CUresult admitted_##symbol params \
	{ \
		if (!real_load(REAL_CUDA) || !real.symbol) { \
			launch_look_soon(); \
			return CUDA_ERROR_NOT_INITIALIZED; \
		} \
		LAUNCH_RETURN(launch_admit, symbol, call, function_, blocks_, stream_, is_thread); \
	} \
	HOOK_EXPORT CUresult symbol params \
	{ \
		if (launch_is_free((function_), (blocks_), (stream_)) && real.symbol) \
			return real.symbol call; \
		return admitted_##symbol call; \
	}
