/*
 * A device's budget, shared by the container's processes: the words of throttle.h in the usage page,
 * and waiting for them.
 *
 * Threads: any. No lock; who waits sleeps on the word, and is woken when there is more than was
 * thought. Otherwise time is all it takes.
 */
#pragma once

#include <stdint.h>

#include "pages.h"

uint64_t budget_now_ns(void);

/* The same, up to a tick of the kernel's earlier (1 to 10 ms), at a fifth of the price. */
uint64_t budget_about_ns(void);

/* Somebody has work for the device; the host lends what nobody has work for. */
void budget_want(struct hamid_budget *budget, uint64_t now_ns);

/* One try, now: 0 when the cost is charged, else how long it is to wait. `rate`: thousandths. */
uint64_t budget_try(struct hamid_budget *budget, uint64_t now_ns, uint64_t cost_ns, uint64_t rate);

/* Sleep until the word is due, but no longer than until the rate should be looked at again. */
void budget_sleep(struct hamid_budget *budget, uint64_t wait_ns);

/* What was charged turned out to cost this much more, or less. */
void budget_correct(struct hamid_budget *budget, int64_t more_ns, uint64_t rate);
