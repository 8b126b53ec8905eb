/*
 * What memory pools are charged: the bytes that a pool has reserved from its device, not those that
 * are handed out of it. The driver tells; nobody tells when they change. So whoever may have
 * changed them asks the driver, then settles.
 *
 * Terms: pool = a stream-ordered pool, or all graph memory of a device; version = grows with every
 * call that may have changed a pool, so that an answer that was asked for before is known to be old.
 *
 * Threads: any. Pools are never taken off the list; a place is used again for another pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger.h"

enum pool_kind {
	POOL_STREAM_ORDERED = 1,
	POOL_GRAPH, /* key: the device's ordinal + 1 */
	POOL_DYING,  /* being destroyed: nobody knows yet whether it will be */
	POOL_ORPHAN, /* destroyed; charged all that it had until the last of its blocks is freed */
};

struct pool;

/*
 * The pool with this key; made when new. `device` NULL: nothing is charged of it. 0; -ENOMEM or -EPERM: nothing may be
 * taken from it.
 */
int pools_get(enum pool_kind kind, uint64_t key, struct pages_device *device, struct pool **ret_pool);

/* Only if known already; else NULL. */
struct pool *pools_find(enum pool_kind kind, uint64_t key);

/* The next pool that is charged something, or NULL: start with NULL. */
struct pool *pools_next_charged(struct pool *after);

/* Is any pool charged anything? Costs a load. */
bool pools_are_charged(void);

enum pool_kind pools_kind(const struct pool *pool);
uint64_t pools_key(const struct pool *pool);
struct pages_device *pools_device(const struct pool *pool);
uint64_t pools_charged_bytes(const struct pool *pool);

/* A call that may have changed the pool returned. */
void pools_touch(struct pool *pool);
uint64_t pools_version(const struct pool *pool);

/*
 * In between a call makes the pool grow, and settles that itself, for it may not be had. Nobody else charges it by force
 * meanwhile.
 */
void pools_begin_growth(struct pool *pool);
void pools_end_growth(struct pool *pool);
bool pools_is_growing(const struct pool *pool);

/*
 * At `version` the driver said that the pool has `reserved_bytes`. Charge that, using up
 * `advance`, what was reserved ahead for this call (NULL: nothing). 0; -EAGAIN: it has changed
 * since, ask again; -ENOMEM: over the limit, nothing changed; forced: never over.
 */
int pools_settle(struct pool *pool, uint64_t version, uint64_t reserved_bytes,
		 const struct ledger_charge *advance, bool is_forced);

/* A block of a pool: so that it can be told from other memory, and outlive its pool. */
int pools_remember(struct pool *pool, uint64_t address, uint64_t size_bytes);

/* A block, whose entry (LEDGER_POOLED) was taken out, was freed. */
void pools_forget(const struct ledger_entry *block);

/*
 * Its handle means nothing any more. Then: was it destroyed? If not, it is what it was. The driver keeps all that a
 * destroyed pool has until the last of its blocks is freed.
 */
void pools_orphan(struct pool *pool);
void pools_bury(struct pool *pool, bool is_destroyed);
