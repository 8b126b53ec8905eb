/*
 * Shards of open addressing, linear probing; deletion moves later entries up, so there are no
 * tombstones and a look-up stays short for ever. The memory comes from mmap: the program's malloc
 * is not entered from within its CUDA calls.
 */
#include "ledger_table.h"

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

int ledger_table_put(const struct ledger_entry *entry, struct ledger_entry *ret_before)
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

int ledger_table_mark(enum ledger_kind kind, uint64_t key, uint16_t bit, bool is_set, struct ledger_entry *ret_before)
{
	int r = -ENOENT;
	struct shard *shard = shard_of(kind, key);
	lock(shard);
	size_t at = shard->count ? find(shard, kind, key) : 0;
	if (shard->count && shard->entries[at].kind != LEDGER_NONE) {
		struct ledger_entry *entry = &shard->entries[at];
		*ret_before = *entry;
		entry->cell = (uint16_t)(is_set ? entry->cell | bit : entry->cell & ~bit);
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

void ledger_table_walk(bool (*visit)(struct ledger_entry *entry, const void *argument),
		       const void *argument)
{
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *shard = &shards[i];
		lock(shard);
		for (size_t at = 0; at < shard->capacity;) {
			if (shard->entries[at].kind != LEDGER_NONE && visit(&shard->entries[at], argument))
				remove_at(shard, at); /* another may have moved here: look again */
			else
				at++;
		}
		unlock(shard);
	}
}
