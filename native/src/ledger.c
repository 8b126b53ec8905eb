/*
 * One hash table, open addressing, linear probing; deletion moves later entries up, so there are no
 * tombstones and a look-up stays short for ever. Its memory comes from mmap: the program's malloc
 * is not entered from within its CUDA calls.
 */
#include "ledger.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "pages.h"

#define FIRST_CAPACITY 1024u /* entries; a power of two, as all capacities */

struct entry {
	uint64_t address; /* 0: empty */
	uint64_t size_bytes;
	uint32_t device;
	uint32_t padding;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* LOCK_LEDGER */
static struct entry *entries;
static size_t capacity;
static size_t count;   /* entries in the table */
static size_t promised; /* room kept for charges that are reserved */

static size_t home_of(uint64_t address)
{
	/* Addresses are multiples of large powers of two: multiply, take the high bits. */
	return (size_t)((address * 0x9e3779b97f4a7c15ull) >> 32) & (capacity - 1);
}

/* Returns what stood there for the address before; its address is 0 if nothing did. */
static struct entry insert(const struct entry *entry)
{
	size_t at = home_of(entry->address);
	while (entries[at].address && entries[at].address != entry->address)
		at = (at + 1) & (capacity - 1);
	if (!entries[at].address)
		count++;
	struct entry before = entries[at];
	entries[at] = *entry;
	return before;
}

static int grow(void)
{
	struct entry *old = entries;
	const size_t old_capacity = capacity;
	const size_t new_capacity = old_capacity ? old_capacity * 2 : FIRST_CAPACITY;
	void *memory = mmap(NULL, new_capacity * sizeof *entries, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	entries = memory;
	capacity = new_capacity;
	count = 0;
	for (size_t i = 0; i < old_capacity; i++)
		if (old[i].address)
			insert(&old[i]);
	if (old)
		munmap(old, old_capacity * sizeof *old);
	return 0;
}

/* Keep room for one more, at most half full, so that commit cannot fail. */
static int promise(void)
{
	int r = 0;
	pthread_mutex_lock(&mutex);
	if ((count + promised + 1) * 2 > capacity)
		r = grow();
	if (r == 0)
		promised++;
	pthread_mutex_unlock(&mutex);
	return r;
}

static void unpromise(void)
{
	pthread_mutex_lock(&mutex);
	if (promised)
		promised--;
	pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	/* The driver's memory is the parent's; a child of a CUDA process has none of its own. */
	entries = NULL;
	capacity = 0;
	count = 0;
	promised = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

int ledger_reserve(const char *uuid, uint64_t size_bytes, struct ledger_charge *ret_charge)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	struct device_limit limit;
	int r = pages_limit(uuid, &limit);
	if (r == -ENOENT) {
		*ret_charge = (struct ledger_charge){.device = LEDGER_UNCOUNTED};
		return 0;
	}
	if (r < 0)
		return r;
	if (size_bytes > limit.memory_limit_bytes)
		return -ENOMEM;

	pthread_once(&forks_watched, watch_forks);
	r = promise();
	if (r < 0)
		return r;
	struct ledger_charge charge = {.size_bytes = size_bytes};
	r = pages_reserve(limit.uuid, size_bytes, limit.memory_limit_bytes, &charge.device);
	if (r < 0) {
		unpromise();
		return r;
	}
	*ret_charge = charge;
	return 0;
}

void ledger_commit(const struct ledger_charge *charge, uint64_t address)
{
	if (charge->device == LEDGER_UNCOUNTED || !address)
		return;
	struct entry entry = {
		.address = address,
		.size_bytes = charge->size_bytes,
		.device = charge->device,
	};
	pthread_mutex_lock(&mutex);
	if (promised)
		promised--;
	struct entry before = insert(&entry);
	pthread_mutex_unlock(&mutex);
	/*
	 * The driver freed it unasked (its context was destroyed), or it would not give it again.
	 */
	if (before.address)
		pages_release(before.device, before.size_bytes);
}

void ledger_cancel(const struct ledger_charge *charge)
{
	if (charge->device == LEDGER_UNCOUNTED)
		return;
	unpromise();
	pages_release(charge->device, charge->size_bytes);
}

/* Empty slot `hole`, and move up what its emptiness would hide. */
static void remove_at(size_t hole)
{
	size_t at = hole;
	for (;;) {
		at = (at + 1) & (capacity - 1);
		if (!entries[at].address)
			break;
		size_t home = home_of(entries[at].address);
		/* May this entry move to the hole? Only if its home is not between hole and at. */
		if (((at - home) & (capacity - 1)) >= ((at - hole) & (capacity - 1))) {
			entries[hole] = entries[at];
			hole = at;
		}
	}
	entries[hole].address = 0;
	count--;
}

int ledger_take(uint64_t address, struct ledger_charge *ret_charge)
{
	int r = -ENOENT;
	pthread_mutex_lock(&mutex);
	if (address && capacity) {
		size_t at = home_of(address);
		while (entries[at].address && entries[at].address != address)
			at = (at + 1) & (capacity - 1);
		if (entries[at].address) {
			*ret_charge = (struct ledger_charge){
				.size_bytes = entries[at].size_bytes,
				.device = entries[at].device,
			};
			remove_at(at);
			promised++; /* for ledger_put_back */
			r = 0;
		}
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

void ledger_put_back(const struct ledger_charge *charge, uint64_t address)
{
	ledger_commit(charge, address);
}

void ledger_release(const struct ledger_charge *charge)
{
	ledger_cancel(charge);
}
