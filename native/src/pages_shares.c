#include "pages_shares.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "pages_usage.h"
#include "usage_file.h"
#include "usage_shares.h"

/* By index, what this process has of a share. Set under the slow lock, taken back by anybody at any time. */
static struct own_share {
	_Atomic uint64_t block; /* where it is ours */
	_Atomic uint16_t kind;  /* 0: it is not */
	_Atomic uint32_t openings;
} own[HAMID_SHARES_MAX];
static _Atomic uint32_t own_end;
static _Atomic bool is_behind;

void pages_shares_after_fork(void)
{
	memset(own, 0, atomic_load(&own_end) * sizeof *own);
	atomic_store(&own_end, 0);
	atomic_store(&is_behind, false);
}

static void reach(uint32_t index)
{
	if (atomic_load(&own_end) <= index)
		atomic_store(&own_end, index + 1);
}

/* --- under the slow lock --- */

struct offering {
	uint16_t kind;
	uint64_t block;
	const struct pages_offer *offer;
};

static int act_offer(struct hamid_usage *page, void *argument)
{
	const struct offering *offering = argument;
	const int index = usage_shares_add(page, offering->offer, usage_own_slot());
	if (index < 0)
		return index;
	atomic_store(&own[index].block, offering->block);
	atomic_store(&own[index].kind, offering->kind);
	reach((uint32_t)index);
	return 0;
}

static int open_at(struct hamid_usage *page, int index)
{
	if (index < 0)
		return index;
	usage_share_open(usage_share_at(page, (uint32_t)index), usage_own_slot());
	atomic_fetch_add(&own[index].openings, 1);
	reach((uint32_t)index);
	return index;
}

static int act_open(struct hamid_usage *page, void *argument)
{
	const uint64_t *key = argument;
	return open_at(page, usage_shares_find(page, *key));
}

static int act_adopt(struct hamid_usage *page, void *argument)
{
	const struct pages_offer *offer = argument;
	int index = usage_shares_find(page, offer->key);
	if (index == -ENOENT)
		index = usage_shares_add(page, offer, USAGE_NO_SLOT);
	index = open_at(page, index);
	usage_shares_settle(page);
	return index;
}

static void let_go(struct hamid_usage *page)
{
	const uint32_t end = atomic_load(&own_end), slot = usage_own_slot();
	atomic_store(&is_behind, false);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_share *share = usage_share_at(page, i);
		if (share->maker == slot + 1 && !atomic_load(&own[i].kind))
			__atomic_store_n(&share->maker, 0, __ATOMIC_SEQ_CST);
		if (!atomic_load(&own[i].openings))
			usage_share_close(share, slot);
	}
	usage_shares_settle(page);
}

static int act_let_go(struct hamid_usage *page, void *argument)
{
	(void)argument;
	let_go(page);
	return 0;
}

void pages_shares_catch_up(struct hamid_usage *page)
{
	if (atomic_load(&is_behind))
		let_go(page);
}

/* --- any thread's --- */

static int act_joined(int (*act)(struct hamid_usage *page, void *argument), void *argument)
{
	int saved_errno = errno;
	int r = usage_join();
	if (r == 0)
		r = usage_under_slow_lock(act, argument);
	errno = saved_errno;
	return r;
}

static void tell(void)
{
	if (act_joined(act_let_go, NULL) < 0)
		atomic_store(&is_behind, true);
}

int pages_share_offer(uint16_t kind, uint64_t block, const struct pages_offer *offer)
{
	struct offering offering = {kind, block, offer};
	return act_joined(act_offer, &offering);
}

/* HAMID_SHARES_MAX: it is not offered. */
static uint32_t find_own(uint16_t kind, uint64_t block)
{
	const uint32_t end = atomic_load(&own_end);
	for (uint32_t i = 0; i < end; i++)
		if (atomic_load(&own[i].kind) == kind && atomic_load(&own[i].block) == block)
			return i;
	return HAMID_SHARES_MAX;
}

uint64_t pages_share_key(uint32_t index)
{
	struct hamid_usage *page = usage_file_page();
	return page ? usage_share_at(page, index)->key : 0;
}

uint64_t pages_share_key_of(uint16_t kind, uint64_t block)
{
	const uint32_t index = find_own(kind, block);
	return index < HAMID_SHARES_MAX ? pages_share_key(index) : 0;
}

void pages_share_withdraw(uint16_t kind, uint64_t block)
{
	const uint32_t index = find_own(kind, block);
	if (index == HAMID_SHARES_MAX)
		return;
	atomic_store(&own[index].kind, 0);
	tell();
}

int pages_share_open(uint64_t key)
{
	return act_joined(act_open, &key);
}

int pages_share_adopt(const struct pages_offer *offer)
{
	struct pages_offer copy = *offer;
	return act_joined(act_adopt, &copy);
}

void pages_share_close(uint32_t index)
{
	if (atomic_fetch_sub(&own[index].openings, 1) == 1)
		tell();
}
