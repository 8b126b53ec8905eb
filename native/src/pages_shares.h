/*
 * Memory that other processes may open, as this process has it: what of its own it offers, and what it has open.
 *
 * Terms: block = what the caller knows an offer by: its kind and key in the ledger; key of a share = what whoever
 * opens it is told, never 0 and less than HAMID_SHARE_KEYS; left = as in usage_shares.h.
 *
 * Threads: any (LOCK_USAGE, LOCK_SLOW). Where a stopped process has the slow lock, nothing can be offered or opened;
 * what is let go of meanwhile is made up for later.
 */
#pragma once

#include <stdint.h>

#define HAMID_SHARE_KEYS (1ull << 61)

struct pages_offer {
	uint64_t key;
	uint64_t size_bytes;
	uint16_t cell;
	uint16_t fixed_cell; /* + 1; 0: none */
};

/* Others may open a block of ours. 0; -ENOSPC, -EAGAIN, -EPERM: they will not find it. */
int pages_share_offer(uint16_t kind, uint64_t block, const struct pages_offer *offer);

/* The key under which it is offered; 0: it is not. */
uint64_t pages_share_key_of(uint16_t kind, uint64_t block);

/* It is ours no more. Before it is released, so that it is counted throughout. */
void pages_share_withdraw(uint16_t kind, uint64_t block);

/* Open what is offered in the container, or open already: its index, -ENOENT, or as above. */
int pages_share_open(uint64_t key);

/*
 * Open what nobody of the container made: counted as left, if it is not open already. It has been claimed by the
 * caller, who gives that back after. As pages_share_open(), or -ENOSPC.
 */
int pages_share_adopt(const struct pages_offer *offer);

/* The key of one that we have open. */
uint64_t pages_share_key(uint32_t index);

void pages_share_close(uint32_t index);
