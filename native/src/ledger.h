/*
 * What this process has allocated and not yet freed, so that a free gives back what the allocation
 * took.
 *
 * Life of a charge: reserve (counted against the limit, before the driver is asked) → commit (the
 * driver gave an address) or cancel (it did not). A free takes the entry out first, since the
 * driver may give the address to another thread at once; then release, or put back if the driver
 * refused.
 *
 * Threads: any. Not held across a call of the driver.
 */
#pragma once

#include <stdint.h>

#define LEDGER_UNCOUNTED UINT32_MAX

struct ledger_charge {
	uint64_t size_bytes;
	uint32_t device; /* in the usage page; LEDGER_UNCOUNTED outside our containers */
};

/*
 * Count `size_bytes` on the device with this UUID. Fails closed. 0; -ENOMEM: over the limit, or no
 * room to remember the address in; -EPERM: the pages cannot be used.
 */
int ledger_reserve(const char *uuid, uint64_t size_bytes, struct ledger_charge *ret_charge);

void ledger_commit(const struct ledger_charge *charge, uint64_t address);
void ledger_cancel(const struct ledger_charge *charge);

/* Take out the entry of an address; -ENOENT if it is none of ours (the driver will know). */
int ledger_take(uint64_t address, struct ledger_charge *ret_charge);

void ledger_put_back(const struct ledger_charge *charge, uint64_t address);
void ledger_release(const struct ledger_charge *charge);
