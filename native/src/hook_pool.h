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

/* Where a call allocates, and what it has reserved for that. */
struct hook_taking {
	struct whereabouts here;
	struct ledger_charge charge;
};

/* Reserve on the current device; without a context the driver's own error. */
CUresult hook_take_begin(uint64_t size_bytes, struct hook_taking *ret_taking);
CUresult hook_take_begin_managed(uint64_t size_bytes, struct hook_taking *ret_taking);

/*
 * The driver answered `cr`: record what it made, or cancel. An error where the driver had none: what it made has
 * to be undone.
 */
CUresult hook_take_end(const struct hook_taking *taking, CUresult cr, enum ledger_kind kind,
		       uint64_t key);

/*
 * The pool with this handle, which is of the current device unless more is known of it; without a device where its
 * memory is the host's. As pools_get().
 */
int hook_pool_of(CUmemoryPool handle, struct pages_device *current, struct pool **ret_pool);

/* Ask the driver what one pool has reserved, and charge that; as pools_settle(). */
int hook_settle(struct pool *pool, const struct ledger_charge *advance, bool is_forced);

/* The same for all pools, and for what leaves (hook_leaving.h), after a call that may have made it less. */
void hook_settle_pools(void);
