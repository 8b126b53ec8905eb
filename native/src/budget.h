/*
 * A device's budget, shared by the container's processes: the word of throttle.h in the usage page,
 * and waiting for it.
 *
 * Threads: any. No lock; who waits sleeps on the word, and is woken when there is more than was
 * thought. Otherwise time is all it takes.
 */
#pragma once

#include <stdint.h>

#include "pages.h"

uint64_t budget_now_ns(void);

/* One try: 0 when the cost is charged, else how long it is to wait. */
uint64_t budget_try(uint64_t *word, uint64_t cost_ns, uint32_t percent);

/* Sleep until the word is due, but no longer than until the cap should be looked at again. */
void budget_sleep(uint64_t *word, uint64_t wait_ns);

/* What was charged turned out to cost this much more, or less. */
void budget_correct(uint64_t *word, int64_t more_ns, uint32_t percent);
