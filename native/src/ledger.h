/*
 * What this process holds and has not given back, so that giving back releases what taking charged.
 *
 * Life of a charge: reserve (counted against the limit, before the driver is asked) → commit (the
 * driver gave an address or handle) or cancel (it did not). Who gives back takes the entry out
 * first, since the driver may hand the address to another thread at once; then release, or put back
 * if the driver refused.
 *
 * Terms: key = the address or handle, within its kind; owner = the context that the driver frees it
 * with (0: none), or the handle that a mapping is of; mark = a moment before a context ended.
 *
 * Threads: any. No lock is held across a call of the driver. Constant time for every operation but
 * ledger_release_owned().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pages.h"

enum ledger_kind {
	LEDGER_NONE, /* an empty place in the table */
	LEDGER_MEMORY,
	LEDGER_ARRAY,
	LEDGER_MIPMAP,
	LEDGER_EXTERNAL,
	LEDGER_POOLED, /* its pool is charged, not it */
	LEDGER_HANDLE,
	LEDGER_MAPPING,
	LEDGER_IMPORT,  /* an address at which another's memory was opened */
	LEDGER_FOREIGN, /* a handle of memory that nobody of the container is charged for */
	LEDGER_MAPPED,  /* a mapping of one, which is charged itself */
	LEDGER_LEAVING, /* freed, but still there; by its event (hook_leaving.c) */
	LEDGER_CONTEXT,
	LEDGER_CONTEXT_LIMIT,
	LEDGER_GREEN, /* which device a green context is of (hook_context.c) */
	LEDGER_GRAPH, /* these three say what graphs will take (hook_graph_build.c) */
	LEDGER_GRAPH_EXEC,
	LEDGER_GRAPH_BLOCK,
};

#define LEDGER_UNCOUNTED UINT16_MAX /* outside our containers; nothing is kept of it */

/* In `cell`: */
#define LEDGER_FIXED 0x4000u    /* counted in the device's second cell, too */
#define LEDGER_OFFERED 0x8000u  /* others may have it open (pages_shares.h) */
#define LEDGER_BORROWED 0x2000u /* a share that we have open: `size_bytes` is its index, nothing is charged to us */

struct ledger_charge {
	uint64_t size_bytes;
	uint16_t cell; /* the device's, in the usage page; and LEDGER_FIXED */
	struct pages_device *device;
};

struct ledger_entry {
	uint64_t key;
	uint64_t size_bytes;
	uint64_t owner;
	union {
		uint32_t count; /* of references to a handle */
		uint32_t mark;  /* of what a context owns: the last one when it was committed */
	};
	uint16_t cell;
	uint16_t kind;
};

/* A charge of nothing yet, which is to be had whatever the limit says. 0, or -EPERM as below. */
int ledger_open(struct pages_device *device, struct ledger_charge *ret_charge);

/*
 * Count `size_bytes` on a device. Fails closed. 0; -ENOMEM: over the limit; -EPERM: the pages
 * cannot be used.
 */
int ledger_reserve(struct pages_device *device, uint64_t size_bytes,
		   struct ledger_charge *ret_charge);

/*
 * The same for managed memory, which may leave the device. Where the device is oversubscribed, only
 * what may not is held to its share of the card, besides the limit (LEDGER_FIXED).
 */
int ledger_reserve_managed(struct pages_device *device, uint64_t size_bytes,
			   struct ledger_charge *ret_charge);

/* Is the limit more than the device may be asked to hold at once? Of the last reading of the limit. */
bool ledger_is_oversubscribed(const struct pages_device *device);

/* Make a charge smaller or larger; as ledger_reserve, and unchanged on failure. */
int ledger_resize(struct ledger_charge *charge, uint64_t size_bytes);

/*
 * Count what is taken already, whatever the limit says: so that the books are true and the next one
 * is refused.
 */
void ledger_force(struct ledger_charge *charge, uint64_t size_bytes);

/* 0, or -ENOMEM when there is no room to remember it in: then it has to be given back. */
int ledger_commit(const struct ledger_charge *charge, enum ledger_kind kind, uint64_t key,
		  uint64_t owner);
void ledger_cancel(const struct ledger_charge *charge);

/* Take out the entry of a key; -ENOENT if it is none of ours (the driver will know). */
int ledger_take(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret_entry);
void ledger_put_back(const struct ledger_entry *entry);
void ledger_release(const struct ledger_entry *entry);

/*
 * Others may open it: as the share with this key, or with the one that it has already, which is *key then. 0, -ENOENT
 * (none of ours), or they will not find it.
 */
int ledger_offer(enum ledger_kind kind, uint64_t block, uint64_t *key);

/* It is about to be given back: who has it open is charged, not to count what the caller goes on to. */
void ledger_withdraw(const struct ledger_entry *entry);

/*
 * What nobody of the container made was opened, and has been claimed: count it as left instead, once for all of the
 * container, and let go of the claim. The share's index; or an error, and it stays claimed.
 */
int ledger_adopt(const struct ledger_charge *charge, uint64_t key);

/* A share that we have open, by what the driver calls it. As ledger_commit(), and on failure it is closed. */
int ledger_borrow(enum ledger_kind kind, uint64_t block, uint64_t owner, uint32_t share);

/* One reference more, or less; the last takes the entry out: then its count is 0. -ENOENT: no entry. */
int ledger_hold(enum ledger_kind kind, uint64_t key);
int ledger_let_go(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret_entry);

/*
 * Before the driver is asked to end a context: a mark. What is committed from then on is not of that
 * context, but of one that got its handle.
 */
uint32_t ledger_mark(void);

/* What one context owned is another's from now on. */
void ledger_give_over(uint64_t context, uint64_t to_context);

/* Release everything that the driver freed with a context. */
void ledger_release_owned(uint64_t context, uint32_t mark);
