/*
 * Shards of open addressing, linear probing; deletion moves later entries up, so there are no
 * tombstones and a look-up stays short for ever. The memory comes from mmap: the program's malloc
 * is not entered from within its CUDA calls.
 */
#include "ledger.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define SHARD_BITS 4
#define SHARDS (1u << SHARD_BITS)
#define LARGE_PAGE_BYTES (2ul << 20)
#define FIRST_CAPACITY 128u /* entries; a power of two, as all capacities */

struct shard {
	_Atomic bool is_locked; /* LOCK_LEDGER */
	struct ledger_entry *entries;
	size_t capacity;
	size_t count;
} __attribute__((aligned(64)));

static struct shard shards[SHARDS];

/*
 * A few ns cheaper than a mutex on every allocation; held for a few instructions, but for growing.
 */
static void lock(struct shard *shard)
{
	while (atomic_exchange_explicit(&shard->is_locked, true, memory_order_acquire))
		sched_yield();
}

static void unlock(struct shard *shard)
{
	atomic_store_explicit(&shard->is_locked, false, memory_order_release);
}

/* Addresses are multiples of large powers of two: multiply, take high bits. */
static uint64_t hash_of(enum ledger_kind kind, uint64_t key)
{
	return (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;
}

static struct shard *shard_of(enum ledger_kind kind, uint64_t key)
{
	return &shards[hash_of(kind, key) >> (64 - SHARD_BITS)];
}

static size_t home_of(const struct shard *shard, enum ledger_kind kind, uint64_t key)
{
	return (size_t)(hash_of(kind, key) >> 20) & (shard->capacity - 1);
}

/* Where the key's entry is, or the empty place where it would be. Pre: capacity. */
static size_t find(const struct shard *shard, enum ledger_kind kind, uint64_t key)
{
	size_t at = home_of(shard, kind, key);
	while (shard->entries[at].kind != LEDGER_NONE &&
	       (shard->entries[at].key != key || shard->entries[at].kind != kind))
		at = (at + 1) & (shard->capacity - 1);
	return at;
}

/*
 * Zeroed memory; NULL without. Large tables are looked into at random, so they ask for large pages,
 * and begin on one.
 */
static void *map_table(size_t length)
{
	const size_t slack = length >= LARGE_PAGE_BYTES ? LARGE_PAGE_BYTES : 0;
	char *memory = mmap(NULL, length + slack, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (!slack)
		return memory;
	const size_t before = -(uintptr_t)memory & (LARGE_PAGE_BYTES - 1);
	if (before)
		munmap(memory, before);
	if (slack - before)
		munmap(memory + before + length, slack - before);
	madvise(memory + before, length, MADV_HUGEPAGE);
	return memory + before;
}

static int grow(struct shard *shard)
{
	struct shard larger = {.capacity = shard->capacity ? shard->capacity * 2 : FIRST_CAPACITY};
	larger.entries = map_table(larger.capacity * sizeof *larger.entries);
	if (!larger.entries)
		return -ENOMEM;
	for (size_t i = 0; i < shard->capacity; i++) {
		const struct ledger_entry *entry = &shard->entries[i];
		if (entry->kind != LEDGER_NONE)
			larger.entries[find(&larger, entry->kind, entry->key)] = *entry;
	}
	if (shard->entries)
		munmap(shard->entries, shard->capacity * sizeof *shard->entries);
	shard->entries = larger.entries;
	shard->capacity = larger.capacity;
	return 0;
}

static void after_fork_in_child(void)
{
	/* The driver's memory is the parent's; a child of a CUDA process has none of its own. */
	memset(shards, 0, sizeof shards);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* --- charges --- */

#define CELL_MASK (LEDGER_FIXED - 1u)

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

static int reserve(struct pages_device *device, uint64_t size_bytes, bool is_managed,
		   struct ledger_charge *ret_charge)
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
	if (r < 0)
		return r;
	r = claim(device, cell, size_bytes);
	if (r < 0)
		return r;
	*ret_charge = (struct ledger_charge){
		.size_bytes = size_bytes,
		.cell = cell,
		.device = device,
	};
	return 0;
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

/* --- the table --- */

/* Add, or replace what stood there: *ret_before, whose kind is LEDGER_NONE if nothing did. */
static int insert(const struct ledger_entry *entry, struct ledger_entry *ret_before)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	int r = 0;
	struct shard *shard = shard_of(entry->kind, entry->key);
	lock(shard);
	if ((shard->count + 1) * 2 > shard->capacity)
		r = grow(shard);
	/* Without memory for more: half full is for speed; it may be filled but for one place. */
	if (r < 0 && shard->capacity && shard->count + 1 < shard->capacity)
		r = 0;
	if (r == 0) {
		size_t at = find(shard, entry->kind, entry->key);
		*ret_before = shard->entries[at];
		shard->entries[at] = *entry;
		shard->count += ret_before->kind == LEDGER_NONE;
	}
	unlock(shard);
	return r;
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
		.count = 1,
		.cell = charge->cell,
		.kind = (uint16_t)kind,
	};
	struct ledger_entry before;
	int r = insert(&entry, &before);
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
	if (insert(&whole, &before) == 0 && before.kind != LEDGER_NONE)
		ledger_release(&before);
}

/* Empty the place `hole`, and move up what its emptiness would hide. */
static void remove_at(struct shard *shard, size_t hole)
{
	const size_t mask = shard->capacity - 1;
	for (size_t at = (hole + 1) & mask; shard->entries[at].kind != LEDGER_NONE;
	     at = (at + 1) & mask) {
		size_t home = home_of(shard, shard->entries[at].kind, shard->entries[at].key);
		/* May this entry move to the hole? Only if its home is not between hole and at. */
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			shard->entries[hole] = shard->entries[at];
			hole = at;
		}
	}
	shard->entries[hole].kind = LEDGER_NONE;
	shard->count--;
}

int ledger_take(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret_entry)
{
	int r = -ENOENT;
	struct shard *shard = shard_of(kind, key);
	lock(shard);
	size_t at = shard->count ? find(shard, kind, key) : 0;
	if (shard->count && shard->entries[at].kind != LEDGER_NONE) {
		*ret_entry = shard->entries[at];
		remove_at(shard, at);
		r = 0;
	}
	unlock(shard);
	return r;
}

void ledger_release(const struct ledger_entry *entry)
{
	switch (entry->kind) {
	case LEDGER_MEMORY:
	case LEDGER_ARRAY:
	case LEDGER_MIPMAP:
	case LEDGER_EXTERNAL:
	case LEDGER_HANDLE:
	case LEDGER_CONTEXT:
	case LEDGER_CONTEXT_LIMIT:
		if (entry->size_bytes)
			release_cells(entry->cell, entry->size_bytes);
		break;
	default: /* the bytes of others are a note: something else is charged */
		break;
	}
}

int ledger_hold(enum ledger_kind kind, uint64_t key)
{
	int r = -ENOENT;
	struct shard *shard = shard_of(kind, key);
	lock(shard);
	size_t at = shard->count ? find(shard, kind, key) : 0;
	if (shard->count && shard->entries[at].kind != LEDGER_NONE) {
		shard->entries[at].count++;
		r = 0;
	}
	unlock(shard);
	return r;
}

int ledger_let_go(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret_entry)
{
	int r = -ENOENT;
	struct shard *shard = shard_of(kind, key);
	lock(shard);
	size_t at = shard->count ? find(shard, kind, key) : 0;
	if (shard->count && shard->entries[at].kind != LEDGER_NONE) {
		shard->entries[at].count--;
		*ret_entry = shard->entries[at];
		if (ret_entry->count == 0)
			remove_at(shard, at);
		r = 0;
	}
	unlock(shard);
	return r;
}

static bool is_of_context(const struct ledger_entry *entry, uint64_t context)
{
	switch (entry->kind) {
	case LEDGER_MEMORY:
	case LEDGER_ARRAY:
	case LEDGER_MIPMAP:
	case LEDGER_EXTERNAL:
	case LEDGER_CONTEXT:
	case LEDGER_CONTEXT_LIMIT:
		return entry->owner == context;
	default:
		return false;
	}
}

void ledger_release_owned(uint64_t context)
{
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *shard = &shards[i];
		lock(shard);
		for (size_t at = 0; at < shard->capacity;) {
			if (!is_of_context(&shard->entries[at], context)) {
				at++;
				continue;
			}
			ledger_release(&shard->entries[at]);
			remove_at(shard, at); /* another may have moved here: look again */
		}
		unlock(shard);
	}
}
