/*
 * Shares: memory that processes of the container open besides the one that made it, in the usage page.
 * What has no maker any more, or never had one here, is left: counted in a slot that is no process's, as long as
 * somebody has it open.
 *
 * Threads: callers hold LOCK_SLOW. Who is killed within leaves more counted than there is, for which the next to
 * settle makes up, never less: what a maker holds is taken from his own slot after it was settled.
 */
#pragma once

#include <stdint.h>

#include "hamid_pages.h"
#include "pages_shares.h"

/* Bounded, as any index that stands in the page has to be. */
uint32_t usage_shares_end(struct hamid_usage *page);

static inline struct hamid_usage_share *usage_share_at(struct hamid_usage *page, uint32_t index)
{
	struct hamid_usage_slot *end = (struct hamid_usage_slot *)(page + 1) + HAMID_SLOTS_MAX;
	return (struct hamid_usage_share *)end + index;
}

/* The share with this key; one that has a maker before others, for keys come again. -ENOENT. */
int usage_shares_find(struct hamid_usage *page, uint64_t key);

/* Made by the process in this slot (USAGE_NO_SLOT: by none of the container). Its index, or -ENOSPC. */
int usage_shares_add(struct hamid_usage *page, const struct pages_offer *offer, uint32_t maker);

void usage_share_open(struct hamid_usage_share *share, uint32_t slot);
void usage_share_close(struct hamid_usage_share *share, uint32_t slot);

/* The process in this slot is gone. */
void usage_shares_forget(struct hamid_usage *page, uint32_t slot);

/* Take out the shares that nobody has, and count those that have users alone. */
void usage_shares_settle(struct hamid_usage *page);
