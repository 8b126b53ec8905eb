/*
 * The table behind ledger.h, by kind and key. Taking out, and references, are ledger.h's own calls.
 *
 * Threads: any (LOCK_LEDGER).
 */
#pragma once

#include "ledger.h"

/*
 * Add, or replace what stood there: *ret_before, whose kind is LEDGER_NONE if nothing did. 0, or
 * -ENOMEM: no room, nothing changed.
 */
int ledger_table_put(const struct ledger_entry *entry, struct ledger_entry *ret_before);

/* Set a bit of an entry's cell, or clear it; *ret_before: what stood there. 0 or -ENOENT. */
int ledger_table_mark(enum ledger_kind kind, uint64_t key, uint16_t bit, bool is_set, struct ledger_entry *ret_before);

/*
 * Go through all entries, under the lock. Those for which `visit` says so are taken out; it may change what is in the
 * others, but for kind and key.
 */
void ledger_table_walk(bool (*visit)(struct ledger_entry *entry, const void *argument),
		       const void *argument);
