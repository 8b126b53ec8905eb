#include "throttle.h"

#define COST_MAX_NS 1000000000000ull /* so that nothing overflows */

static uint64_t earliest(uint64_t now_ns)
{
	return now_ns > THROTTLE_BURST_NS ? now_ns - THROTTLE_BURST_NS : 0;
}

static uint64_t clamped(uint64_t due_ns, uint64_t now_ns)
{
	if (due_ns < earliest(now_ns))
		return earliest(now_ns);
	return due_ns < now_ns + THROTTLE_DEBT_NS ? due_ns : now_ns + THROTTLE_DEBT_NS;
}

/* How long the cap needs for it. */
static uint64_t paid_within(uint64_t cost_ns, uint64_t rate)
{
	return (cost_ns < COST_MAX_NS ? cost_ns : COST_MAX_NS) * 1000 / rate;
}

struct throttle_verdict throttle_step(uint64_t due_ns, uint64_t now_ns, uint64_t cost_ns,
				      uint64_t rate)
{
	const uint64_t due = clamped(due_ns, now_ns);
	if (due > now_ns)
		return (struct throttle_verdict){.due_ns = due, .wait_ns = due - now_ns};
	return (struct throttle_verdict){
		.due_ns = clamped(due + paid_within(cost_ns, rate), now_ns),
	};
}

uint64_t throttle_correct(uint64_t due_ns, uint64_t now_ns, int64_t more_ns, uint64_t rate)
{
	/* Time that passed since the launch has paid for it, however little was charged then. */
	const uint64_t due = due_ns < now_ns + THROTTLE_DEBT_NS ? due_ns : now_ns + THROTTLE_DEBT_NS;
	if (more_ns >= 0)
		return clamped(due + paid_within((uint64_t)more_ns, rate), now_ns);
	const uint64_t less = paid_within(0 - (uint64_t)more_ns, rate);
	return clamped(due > less ? due - less : 0, now_ns);
}
