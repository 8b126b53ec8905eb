/*
 * The lock order. Take them in this order only, and never while the driver is being called.
 *
 * After a fork the child re-makes the mutexes: what they guarded is set back to "not attached".
 */
#pragma once

enum lock_order {
	LOCK_LEDGER = 1,   /* ledger.c: one part of the table of what is held; one at a time */
	LOCK_POOLS = 2,    /* pools.c: what pools are charged */
	LOCK_CONTROL = 3,  /* pages_control.c: what was last read of the control page */
	LOCK_USAGE = 4,    /* pages_usage.c: attaching, this process's descriptor and slot */
	LOCK_SLOW = 5,     /* the usage page's slow lock, between processes; implies LOCK_USAGE */
};
