/*
 * The live page as this process uses it: pages_control.c looks for it, and asks it for rates.
 *
 * Threads: pages_live_look() under LOCK_CONTROL; the rest any, no lock.
 */
#pragma once

#include <stdint.h>

/* See whether there is one in the directory of the control page, or another. */
void pages_live_look(const char *dir);

/*
 * What it says of the device with this index in the control page of this generation: a rate in thousandths,
 * HAMID_RATE_STOP, or HAMID_RATE_UNSAID, also when nobody keeps it any more.
 */
uint64_t pages_live_rate(uint32_t index, uint64_t generation, uint64_t now_ns);

/* HAMID_LIVE_… of the device; of the same moment, so worth nothing when the rate is unsaid. */
uint64_t pages_live_flags(uint32_t index);

/* What the container holds of the device beyond what it is charged; 0, also when nobody says. */
uint64_t pages_live_uncounted(uint32_t index, uint64_t generation, uint64_t now_ns);

/* In a forked child: look anew, for a thread of the parent's may have been about to. */
void pages_live_after_fork(void);
