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
	LEDGER_LEAVING, /* freed, but still there; by its event (hook_leaving.c) */
	LEDGER_CONTEXT,
	LEDGER_CONTEXT_LIMIT,
	LEDGER_GREEN, /* which device a green context is of (hook_context.c) */
	LEDGER_GRAPH, /* these three say what graphs will take (hook_graph_build.c) */
	LEDGER_GRAPH_EXEC,
	LEDGER_GRAPH_BLOCK,
};

#define LEDGER_UNCOUNTED UINT16_MAX /* outside our containers; nothing is kept of it */
#define LEDGER_FIXED 0x4000u /* in `cell`: counted in the device's second cell, too */

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
