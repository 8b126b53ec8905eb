/*
 * The compute cap as arithmetic: GPU time may be used at the cap's rate. Pure: no clock, no page.
 *
 * Terms: due = one word per device, the moment at which all work that was charged so far is paid for at the
 * cap's rate; cost = GPU time; credit = how far due lies in the past, debt = how far in the future.
 *
 * Work may start when there is no debt, and makes due later by cost ÷ cap. Nobody has to refill, for
 * time passes by itself: so a process that is killed, at whatever instruction, leaves nothing
 * that time does not heal.
 */
#pragma once

#include <stdint.h>

#define THROTTLE_BURST_NS 20000000ull  /* credit beyond this is lost */
#define THROTTLE_DEBT_NS 5000000000ull /* debt beyond this is forgiven; nonsense in the word, too */

struct throttle_verdict {
	uint64_t due_ns;  /* what the word has to become */
	uint64_t wait_ns; /* 0: start; else not before this has passed, and nothing was charged */
};

/* May work start now that will probably cost this? `rate`: thousandths, not 0. */
struct throttle_verdict throttle_step(uint64_t due_ns, uint64_t now_ns, uint64_t cost_ns,
				      uint64_t rate);

/* The word when work turned out to cost this much more than was charged, or less. */
uint64_t throttle_correct(uint64_t due_ns, uint64_t now_ns, int64_t more_ns, uint64_t rate);
