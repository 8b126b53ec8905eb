/*
 * Charges: what they are counted in (usage page), and what becomes of them. The table of what is held
 * is in ledger_table.c.
 */
#include "ledger.h"

#include <errno.h>
#include <stdatomic.h>

#include "ledger_table.h"
#include "pages_shares.h"

#define CELL_MASK (LEDGER_BORROWED - 1u)

static _Atomic uint32_t last_mark = 1;
static _Atomic uint16_t fixed_cells[HAMID_DEVICES_MAX]; /* by first cell; good where LEDGER_FIXED is */

bool ledger_is_oversubscribed(const struct pages_device *device)
{
	return atomic_load_explicit(&device->fixed_limit_bytes, memory_order_relaxed) <
	       atomic_load_explicit(&device->limit_bytes, memory_order_relaxed);
}

/* Give back to the cells that a charge is counted in. */
static void release_cells(uint16_t cell, uint64_t size_bytes)
{
	pages_release(cell & CELL_MASK, size_bytes);
	if (cell & LEDGER_FIXED)
		pages_release(atomic_load_explicit(&fixed_cells[cell & CELL_MASK],
						   memory_order_relaxed),
			      size_bytes);
}

/* What of a limit may be claimed: what is held and was never claimed is not to be had again. */
static uint64_t claimable(const _Atomic uint64_t *limit_bytes, uint64_t uncounted_bytes)
{
	const uint64_t limit = atomic_load_explicit(limit_bytes, memory_order_relaxed);
	if (limit == HAMID_UNLIMITED)
		return limit;
	return limit > uncounted_bytes ? limit - uncounted_bytes : 0;
}

/* Claim in all cells of a charge, or in none; the limits are those last read. */
static int claim_once(struct pages_device *device, uint16_t cell, uint64_t size_bytes)
{
	const uint16_t first = cell & CELL_MASK;
	const uint64_t uncounted_bytes = pages_device_uncounted(device);
	int r = pages_claim(first, size_bytes, claimable(&device->limit_bytes, uncounted_bytes));
	if (r < 0 || !(cell & LEDGER_FIXED))
		return r;
	r = pages_claim(atomic_load_explicit(&fixed_cells[first], memory_order_relaxed), size_bytes,
			claimable(&device->fixed_limit_bytes, uncounted_bytes));
	if (r < 0)
		pages_release(first, size_bytes);
	return r;
}

/* Before a no: the limit may have been raised since it was last looked at. */
static int claim(struct pages_device *device, uint16_t cell, uint64_t size_bytes)
{
	const uint64_t epoch = atomic_load_explicit(&device->limit_epoch, memory_order_relaxed);
	int r = claim_once(device, cell, size_bytes);
	if (r != -ENOMEM)
		return r;
	uint64_t newest_bytes;
	pages_look_again();
	r = pages_device_limit(device, &newest_bytes);
	if (r == 0 && atomic_load_explicit(&device->limit_epoch, memory_order_relaxed) == epoch)
		return -ENOMEM;
	return r == 0 ? claim_once(device, cell, size_bytes) : r;
}

static int find_cells(struct pages_device *device, bool is_managed, uint16_t *ret_cell)
{
	uint16_t cell, fixed;
	int r = pages_device_cell(device, &cell);
	if (r == 0 && !is_managed && ledger_is_oversubscribed(device)) {
		r = pages_fixed_cell(device, &fixed);
		if (r == 0) {
			atomic_store_explicit(&fixed_cells[cell], fixed, memory_order_relaxed);
			cell |= LEDGER_FIXED;
		}
	}
	*ret_cell = cell;
	return r;
}

static int open_charge(struct pages_device *device, bool is_managed, struct ledger_charge *ret_charge)
{
	uint64_t limit_bytes;
	int r = pages_device_limit(device, &limit_bytes);
	if (r == -ENOENT) {
		*ret_charge = (struct ledger_charge){.cell = LEDGER_UNCOUNTED};
		return 0;
	}
	if (r < 0)
		return r;
	uint16_t cell;
	r = find_cells(device, is_managed, &cell);
	if (r == 0)
		*ret_charge = (struct ledger_charge){.cell = cell, .device = device};
	return r;
}

static int reserve(struct pages_device *device, uint64_t size_bytes, bool is_managed,
		   struct ledger_charge *ret_charge)
{
	struct ledger_charge charge;
	int r = open_charge(device, is_managed, &charge);
	if (r == 0 && charge.cell != LEDGER_UNCOUNTED) {
		r = claim(device, charge.cell, size_bytes);
		charge.size_bytes = size_bytes;
	}
	if (r == 0)
		*ret_charge = charge;
	return r;
}

int ledger_open(struct pages_device *device, struct ledger_charge *ret_charge)
{
	return open_charge(device, false, ret_charge);
}

int ledger_reserve(struct pages_device *device, uint64_t size_bytes,
		   struct ledger_charge *ret_charge)
{
	return reserve(device, size_bytes, false, ret_charge);
}

int ledger_reserve_managed(struct pages_device *device, uint64_t size_bytes,
			   struct ledger_charge *ret_charge)
{
	return reserve(device, size_bytes, true, ret_charge);
}

int ledger_resize(struct ledger_charge *charge, uint64_t size_bytes)
{
	if (charge->cell == LEDGER_UNCOUNTED)
		return 0;
	if (size_bytes < charge->size_bytes) {
		release_cells(charge->cell, charge->size_bytes - size_bytes);
	} else if (size_bytes > charge->size_bytes) {
		uint64_t limit_bytes;
		int r = pages_device_limit(charge->device, &limit_bytes);
		if (r == 0)
			r = claim(charge->device, charge->cell, size_bytes - charge->size_bytes);
		if (r < 0)
			return r;
	}
	charge->size_bytes = size_bytes;
	return 0;
}

void ledger_force(struct ledger_charge *charge, uint64_t size_bytes)
{
	if (charge->cell == LEDGER_UNCOUNTED)
		return;
	const uint16_t first = charge->cell & CELL_MASK;
	if (size_bytes < charge->size_bytes) {
		release_cells(charge->cell, charge->size_bytes - size_bytes);
	} else {
		pages_force(first, size_bytes - charge->size_bytes);
		if (charge->cell & LEDGER_FIXED)
			pages_force(atomic_load(&fixed_cells[first]), size_bytes - charge->size_bytes);
	}
	charge->size_bytes = size_bytes;
}

void ledger_cancel(const struct ledger_charge *charge)
{
	if (charge->cell != LEDGER_UNCOUNTED)
		release_cells(charge->cell, charge->size_bytes);
}

/* --- what is held --- */

/* Does a context own things of this kind? */
static bool is_owned(uint16_t kind)
{
	switch (kind) {
	case LEDGER_MEMORY:
	case LEDGER_ARRAY:
	case LEDGER_MIPMAP:
	case LEDGER_EXTERNAL:
	case LEDGER_IMPORT:
	case LEDGER_LEAVING:
	case LEDGER_CONTEXT:
	case LEDGER_CONTEXT_LIMIT:
		return true;
	default:
		return false;
	}
}

int ledger_commit(const struct ledger_charge *charge, enum ledger_kind kind, uint64_t key,
		  uint64_t owner)
{
	if (charge->cell == LEDGER_UNCOUNTED)
		return 0;
	const struct ledger_entry entry = {
		.key = key,
		.size_bytes = charge->size_bytes,
		.owner = owner,
		.count = is_owned((uint16_t)kind) ? atomic_load(&last_mark) : 1,
		.cell = charge->cell,
		.kind = (uint16_t)kind,
	};
	struct ledger_entry before;
	int r = ledger_table_put(&entry, &before);
	/* The driver freed it unasked, or it would not give it again. */
	if (r == 0 && before.kind != LEDGER_NONE)
		ledger_release(&before);
	return r;
}

void ledger_put_back(const struct ledger_entry *entry)
{
	struct ledger_entry before;
	struct ledger_entry whole = *entry;
	whole.count = entry->count ? entry->count : 1;
	/* Without room its bytes stay counted for the life of the process. */
	if (ledger_table_put(&whole, &before) == 0 && before.kind != LEDGER_NONE)
		ledger_release(&before);
}

/* The bytes of other kinds are a note: something else is charged. */
static bool is_charged(uint16_t kind)
{
	return is_owned(kind) || kind == LEDGER_HANDLE || kind == LEDGER_MAPPED;
}

void ledger_release(const struct ledger_entry *entry)
{
	if (entry->cell & LEDGER_BORROWED) {
		pages_share_close((uint32_t)entry->size_bytes);
		return;
	}
	if (entry->cell & LEDGER_OFFERED)
		ledger_withdraw(entry);
	if (entry->size_bytes && is_charged(entry->kind))
		release_cells(entry->cell, entry->size_bytes);
}

/* --- what others of the container have, too --- */

static struct pages_offer offer_of(uint16_t cell, uint64_t size_bytes, uint64_t key)
{
	struct pages_offer offer = {.key = key, .size_bytes = size_bytes, .cell = cell & CELL_MASK};
	if (cell & LEDGER_FIXED)
		offer.fixed_cell = (uint16_t)(atomic_load(&fixed_cells[offer.cell]) + 1);
	return offer;
}

int ledger_offer(enum ledger_kind kind, uint64_t block, uint64_t *key)
{
	struct ledger_entry before;
	int r = ledger_table_mark(kind, block, LEDGER_OFFERED, true, &before);
	if (r < 0)
		return r;
	if (before.cell & LEDGER_BORROWED)
		*key = pages_share_key((uint32_t)before.size_bytes);
	else if (before.cell & LEDGER_OFFERED)
		*key = pages_share_key_of((uint16_t)kind, block);
	if (before.cell & (LEDGER_BORROWED | LEDGER_OFFERED))
		return 0;
	const struct pages_offer offer = offer_of(before.cell, before.size_bytes, *key);
	r = pages_share_offer((uint16_t)kind, block, &offer);
	if (r < 0)
		ledger_table_mark(kind, block, LEDGER_OFFERED, false, &before);
	return r;
}

void ledger_withdraw(const struct ledger_entry *entry)
{
	pages_share_withdraw(entry->kind, entry->key);
}

int ledger_adopt(const struct ledger_charge *charge, uint64_t key)
{
	if (charge->cell == LEDGER_UNCOUNTED)
		return -ENOENT;
	const struct pages_offer offer = offer_of(charge->cell, charge->size_bytes, key);
	int r = pages_share_adopt(&offer);
	if (r >= 0)
		ledger_cancel(charge);
	return r;
}

int ledger_borrow(enum ledger_kind kind, uint64_t block, uint64_t owner, uint32_t share)
{
	const struct ledger_charge charge = {.size_bytes = share, .cell = LEDGER_BORROWED};
	int r = ledger_commit(&charge, kind, block, owner);
	if (r < 0)
		pages_share_close(share);
	return r;
}

struct heirs {
	uint64_t context, to_context;
};

static bool give_over_if_owned(struct ledger_entry *entry, const void *argument)
{
	const struct heirs *heirs = argument;
	if (is_owned(entry->kind) && entry->owner == heirs->context)
		entry->owner = heirs->to_context;
	return false;
}

void ledger_give_over(uint64_t context, uint64_t to_context)
{
	ledger_table_walk(give_over_if_owned, &(struct heirs){context, to_context});
}

struct ending {
	uint64_t context;
	uint32_t mark;
};

/* Did the context own it, before the mark? Then it is released. */
static bool release_if_owned(struct ledger_entry *entry, const void *argument)
{
	const struct ending *ending = argument;
	if (!is_owned(entry->kind) || entry->owner != ending->context ||
	    (int32_t)(entry->mark - ending->mark) >= 0)
		return false;
	ledger_release(entry);
	return true;
}

uint32_t ledger_mark(void)
{
	return atomic_fetch_add(&last_mark, 1) + 1;
}

void ledger_release_owned(uint64_t context, uint32_t mark)
{
	ledger_table_walk(release_if_owned, &(struct ending){context, mark});
}
