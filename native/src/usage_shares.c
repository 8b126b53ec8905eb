#include "usage_shares.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "usage_slots.h"

#define WORD_BITS 64u

uint32_t usage_shares_end(struct hamid_usage *page)
{
	uint32_t end = __atomic_load_n(&page->shares_high_water, __ATOMIC_ACQUIRE);
	return end < HAMID_SHARES_MAX ? end : HAMID_SHARES_MAX;
}

int usage_shares_find(struct hamid_usage *page, uint64_t key)
{
	int found = -ENOENT;
	const uint32_t end = usage_shares_end(page);
	for (uint32_t i = 0; i < end; i++) {
		if (usage_share_at(page, i)->key != key)
			continue;
		found = (int)i;
		if (usage_share_at(page, i)->maker)
			break;
	}
	return found;
}

int usage_shares_add(struct hamid_usage *page, const struct pages_offer *offer, uint32_t maker)
{
	const uint32_t end = usage_shares_end(page);
	uint32_t index = 0;
	while (index < end && usage_share_at(page, index)->key)
		index++;
	if (index == HAMID_SHARES_MAX || usage_slots_left(page, true) == USAGE_NO_SLOT)
		return -ENOSPC;
	struct hamid_usage_share *share = usage_share_at(page, index);
	memset(share, 0, sizeof *share);
	share->size_bytes = offer->size_bytes;
	share->maker = maker == USAGE_NO_SLOT ? 0 : maker + 1;
	share->cell = offer->cell;
	share->fixed_cell = offer->fixed_cell;
	if (index == end)
		__atomic_store_n(&page->shares_high_water, end + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&share->key, offer->key, __ATOMIC_SEQ_CST);
	return (int)index;
}

void usage_share_open(struct hamid_usage_share *share, uint32_t slot)
{
	__atomic_or_fetch(&share->users[slot / WORD_BITS], 1ull << slot % WORD_BITS, __ATOMIC_SEQ_CST);
}

void usage_share_close(struct hamid_usage_share *share, uint32_t slot)
{
	const uint64_t bit = 1ull << slot % WORD_BITS;
	if (__atomic_load_n(&share->users[slot / WORD_BITS], __ATOMIC_SEQ_CST) & bit)
		__atomic_and_fetch(&share->users[slot / WORD_BITS], ~bit, __ATOMIC_SEQ_CST);
}

void usage_shares_forget(struct hamid_usage *page, uint32_t slot)
{
	const uint32_t end = usage_shares_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_share *share = usage_share_at(page, i);
		if (share->maker == slot + 1)
			__atomic_store_n(&share->maker, 0, __ATOMIC_SEQ_CST);
		usage_share_close(share, slot);
	}
	if (end)
		usage_shares_settle(page);
}

static bool has_users(const struct hamid_usage_share *share)
{
	uint64_t bits = 0;
	for (uint32_t i = 0; i < HAMID_SLOTS_MAX / WORD_BITS; i++)
		bits |= share->users[i];
	return bits != 0;
}

static void add_saturating(uint64_t *sum, uint64_t bytes)
{
	if (__builtin_add_overflow(*sum, bytes, sum))
		*sum = UINT64_MAX;
}

void usage_shares_settle(struct hamid_usage *page)
{
	uint64_t left_bytes[HAMID_DEVICES_MAX] = {0};
	const uint32_t end = usage_shares_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_share *share = usage_share_at(page, i);
		if (!share->key || share->maker)
			continue;
		if (!has_users(share)) {
			__atomic_store_n(&share->key, 0, __ATOMIC_SEQ_CST);
			continue;
		}
		add_saturating(&left_bytes[share->cell % HAMID_DEVICES_MAX], share->size_bytes);
		if (share->fixed_cell)
			add_saturating(&left_bytes[(share->fixed_cell - 1u) % HAMID_DEVICES_MAX],
				       share->size_bytes);
	}
	const uint32_t left = usage_slots_left(page, false);
	for (uint32_t i = 0; left != USAGE_NO_SLOT && i < HAMID_DEVICES_MAX; i++)
		__atomic_store_n(&usage_slot_at(page, left)->cells[i].used_bytes, left_bytes[i],
				 __ATOMIC_SEQ_CST);
}
