/* What hooks of other families ask of the pools (hook_pool.c). */
#pragma once

#include "context.h"
#include "ledger.h"
#include "pools.h"

/*
 * Reserve for a call. Before a no, what pools keep without needing it is given back to the device,
 * as the driver does when a device is full.
 */
CUresult hook_reserve(struct pages_device *device, uint64_t size_bytes,
		      struct ledger_charge *ret_charge);
CUresult hook_reserve_managed(struct pages_device *device, uint64_t size_bytes,
			      struct ledger_charge *ret_charge);
CUresult hook_resize(struct ledger_charge *charge, uint64_t size_bytes);

/* Ask the driver what one pool has reserved, and charge that; as pools_settle(). */
int hook_settle(struct pool *pool, const struct ledger_charge *advance, bool is_forced);

/* The same for all pools, after a call that may have made them smaller. */
void hook_settle_pools(void);
