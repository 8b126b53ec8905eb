/* Of pages_usage.c, for what else is kept in the page under the slow lock. */
#pragma once

#include <stdint.h>

#include "hamid_pages.h"

/* Have a slot: 0 or -EPERM. */
int usage_join(void);

/* USAGE_NO_SLOT: none. */
uint32_t usage_own_slot(void);

/* Run `act` under the slow lock (and LOCK_USAGE); -EAGAIN when it is not to be had in time. Pre: joined. */
int usage_under_slow_lock(int (*act)(struct hamid_usage *page, void *argument), void *argument);

/* Under the slow lock: make up for what could not be had while another had it (pages_shares.c). */
void pages_shares_catch_up(struct hamid_usage *page);

/* In a forked child: nothing is open here. */
void pages_shares_after_fork(void);
