/*
 * The careful way: a claim is announced first (pending), then everybody's cells are added up: of two
 * racers at least one sees the other, so both may back off, but never both win.
 *
 * The quick way, for a container of few processes: where there is room, the claim is written down as
 * granted, and everybody is added up once more. Racers see each other here too, and who finds it too
 * much takes it back and goes the careful way. That is one atomic operation, not three, on a line
 * that all threads of the process share.
 *
 * Order of memory: a grant adds to used before it takes from pending, and a reader reads pending
 * before used, so that bytes on their way from one to the other are never missed.
 */
#include "usage_books.h"

#include <errno.h>
#include <stddef.h>

#include "usage_slots.h"

#define FEW_SLOTS 4u /* whose cells may be added up twice */

struct totals {
	uint64_t used_bytes;
	uint64_t pending_bytes;
};

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static struct totals add_up(struct hamid_usage *page, uint32_t device)
{
	struct totals totals = {0};
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_cell *cell = &usage_slot_at(page, i)->cells[device];
		uint64_t pending = __atomic_load_n(&cell->pending_bytes, __ATOMIC_SEQ_CST);
		uint64_t used = __atomic_load_n(&cell->used_bytes, __ATOMIC_SEQ_CST);
		totals.pending_bytes = add_saturating(totals.pending_bytes, pending);
		totals.used_bytes = add_saturating(totals.used_bytes, used);
	}
	return totals;
}

/*
 * Used and pending of all together, quickly: sums of numbers that are all below 2^52 do not wrap. If
 * one is not, it is nonsense, and everything is used.
 */
static uint64_t add_up_all(struct hamid_usage *page, uint32_t device)
{
	uint64_t sum = 0, bits = 0;
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_cell *cell = &usage_slot_at(page, i)->cells[device];
		uint64_t pending = __atomic_load_n(&cell->pending_bytes, __ATOMIC_SEQ_CST);
		uint64_t used = __atomic_load_n(&cell->used_bytes, __ATOMIC_SEQ_CST);
		sum += pending + used;
		bits |= pending | used;
	}
	return bits >> 52 ? UINT64_MAX : sum;
}

int usage_try_claim(struct hamid_usage *page, uint32_t slot, const struct usage_claim *claim)
{
	struct hamid_usage_cell *cell = &usage_slot_at(page, slot)->cells[claim->device];
	if (claim->size_bytes > claim->limit_bytes)
		return -ENOMEM;
	__atomic_fetch_add(&cell->pending_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	struct totals totals = {0};
	bool is_granted = add_up_all(page, claim->device) <= claim->limit_bytes;
	if (is_granted)
		__atomic_fetch_add(&cell->used_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	else
		totals = add_up(page, claim->device);
	__atomic_fetch_sub(&cell->pending_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	if (is_granted)
		return 0;
	return totals.used_bytes > claim->limit_bytes - claim->size_bytes ? -ENOMEM : -EAGAIN;
}

bool usage_claim_quickly(struct hamid_usage *page, uint32_t slot, const struct usage_claim *claim)
{
	struct hamid_usage_cell *cell = &usage_slot_at(page, slot)->cells[claim->device];
	if (claim->size_bytes > claim->limit_bytes || usage_slots_end(page) > FEW_SLOTS ||
	    add_up_all(page, claim->device) > claim->limit_bytes - claim->size_bytes)
		return false;
	__atomic_fetch_add(&cell->used_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	if (add_up_all(page, claim->device) <= claim->limit_bytes)
		return true;
	__atomic_fetch_sub(&cell->used_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	return false;
}

uint64_t usage_used_bytes(struct hamid_usage *page, uint32_t device)
{
	return add_up(page, device).used_bytes;
}
