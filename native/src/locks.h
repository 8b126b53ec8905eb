/*
 * The lock order. Take them in this order only, and never while the driver is being called.
 *
 * After a fork the child re-makes both mutexes: what they guarded is set back to "not attached".
 */
#pragma once

enum lock_order {
	LOCK_LEDGER = 1,   /* ledger.c: the table of live allocations */
	LOCK_CONTROL = 2,  /* pages_control.c: what was last read of the control page */
	LOCK_USAGE = 3,    /* pages_usage.c: attaching, this process's descriptor and slot */
	LOCK_SLOW = 4,     /* the usage page's slow lock, between processes; implies LOCK_USAGE */
};
