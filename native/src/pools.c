#include "pools.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define POOLS_MAX 4096

struct pool {
	_Atomic int kind; /* 0: a free place */
	uint64_t key;
	struct pages_device *device;
	_Atomic uint64_t version;
	_Atomic uint32_t growing; /* calls */
	_Atomic uint64_t blocks; /* handed out of it and not yet freed */
	struct ledger_charge charge; /* LOCK_POOLS */
	_Atomic uint64_t charged_bytes;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* LOCK_POOLS */
static struct pool pools[POOLS_MAX];
static _Atomic size_t end; /* places at and above were never used */
static _Atomic size_t charged_pools;

static void after_fork_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(pools, 0, sizeof pools);
	atomic_store(&end, 0);
	atomic_store(&charged_pools, 0);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void lock(void)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	pthread_mutex_lock(&mutex);
}

struct pool *pools_find(enum pool_kind kind, uint64_t key)
{
	const size_t last = atomic_load_explicit(&end, memory_order_acquire);
	for (size_t i = 0; i < last; i++)
		if (atomic_load_explicit(&pools[i].kind, memory_order_acquire) == (int)kind &&
		    pools[i].key == key)
			return &pools[i];
	return NULL;
}

/* Holds LOCK_POOLS. */
static int add(enum pool_kind kind, uint64_t key, struct pages_device *device, struct pool **ret_pool)
{
	const size_t last = atomic_load(&end);
	size_t place = 0;
	while (place < last && (atomic_load(&pools[place].kind) != POOL_ORPHAN ||
				pools[place].charge.size_bytes || atomic_load(&pools[place].blocks)))
		place++;
	if (place == POOLS_MAX)
		return -ENOMEM;
	struct pool *pool = &pools[place];
	struct ledger_charge nothing = {.cell = LEDGER_UNCOUNTED};
	int r = device ? ledger_open(device, &nothing) : 0;
	if (r < 0)
		return r;
	pool->key = key;
	pool->device = device;
	pool->charge = nothing;
	atomic_store(&pool->kind, (int)kind);
	if (place == last)
		atomic_store_explicit(&end, last + 1, memory_order_release);
	*ret_pool = pool;
	return 0;
}

int pools_get(enum pool_kind kind, uint64_t key, struct pages_device *device, struct pool **ret_pool)
{
	int r = 0;
	*ret_pool = pools_find(kind, key);
	if (*ret_pool)
		return 0;
	lock();
	*ret_pool = pools_find(kind, key);
	if (!*ret_pool)
		r = add(kind, key, device, ret_pool);
	pthread_mutex_unlock(&mutex);
	return r;
}

struct pool *pools_next_charged(struct pool *after)
{
	const size_t last = atomic_load_explicit(&end, memory_order_acquire);
	for (size_t i = after ? (size_t)(after - pools) + 1 : 0; i < last; i++)
		if (atomic_load_explicit(&pools[i].charged_bytes, memory_order_relaxed))
			return &pools[i];
	return NULL;
}

bool pools_are_charged(void)
{
	return atomic_load_explicit(&charged_pools, memory_order_relaxed) != 0;
}

enum pool_kind pools_kind(const struct pool *pool)
{
	return (enum pool_kind)atomic_load(&pool->kind);
}

uint64_t pools_key(const struct pool *pool)
{
	return pool->key;
}

struct pages_device *pools_device(const struct pool *pool)
{
	return pool->device;
}

uint64_t pools_charged_bytes(const struct pool *pool)
{
	return atomic_load_explicit(&pool->charged_bytes, memory_order_relaxed);
}

void pools_touch(struct pool *pool)
{
	atomic_fetch_add(&pool->version, 1);
}

uint64_t pools_version(const struct pool *pool)
{
	return atomic_load(&pool->version);
}

void pools_begin_growth(struct pool *pool)
{
	atomic_fetch_add(&pool->growing, 1);
	pools_touch(pool);
}

void pools_end_growth(struct pool *pool)
{
	atomic_fetch_sub(&pool->growing, 1);
}

bool pools_is_growing(const struct pool *pool)
{
	return atomic_load(&pool->growing) != 0;
}

/* Holds LOCK_POOLS. */
static int charge(struct pool *pool, uint64_t reserved_bytes, const struct ledger_charge *advance,
		  bool is_forced)
{
	struct ledger_charge whole = pool->charge;
	const bool is_joined = advance && advance->cell == whole.cell;
	if (is_joined)
		whole.size_bytes += advance->size_bytes;
	int r = 0;
	if (is_forced)
		ledger_force(&whole, reserved_bytes);
	else
		r = ledger_resize(&whole, reserved_bytes);
	if (r < 0)
		return r;
	if (advance && !is_joined) /* counted in other cells: only until the whole was */
		ledger_cancel(advance);
	if (whole.cell == LEDGER_UNCOUNTED)
		return 0;
	if (!pool->charge.size_bytes && whole.size_bytes)
		atomic_fetch_add(&charged_pools, 1);
	if (pool->charge.size_bytes && !whole.size_bytes)
		atomic_fetch_sub(&charged_pools, 1);
	pool->charge = whole;
	atomic_store(&pool->charged_bytes, whole.size_bytes);
	return 0;
}

int pools_settle(struct pool *pool, uint64_t version, uint64_t reserved_bytes,
		 const struct ledger_charge *advance, bool is_forced)
{
	int r = -EAGAIN;
	lock();
	if (atomic_load(&pool->version) == version) {
		r = charge(pool, reserved_bytes, advance, is_forced);
		/* Who asked before this answer has an older one. */
		if (r == 0)
			atomic_fetch_add(&pool->version, 1);
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

int pools_remember(struct pool *pool, uint64_t address, uint64_t size_bytes)
{
	const struct ledger_charge uncharged = {.size_bytes = size_bytes, .cell = pool->charge.cell};
	int r = ledger_commit(&uncharged, LEDGER_POOLED, address, (uintptr_t)pool);
	if (r == 0 && uncharged.cell != LEDGER_UNCOUNTED)
		atomic_fetch_add(&pool->blocks, 1);
	return r;
}

/* Holds LOCK_POOLS. */
static void end_if_unused(struct pool *pool)
{
	if (atomic_load(&pool->kind) != POOL_ORPHAN || atomic_load(&pool->blocks))
		return;
	charge(pool, 0, NULL, true);
	atomic_fetch_add(&pool->version, 1);
}

void pools_forget(const struct ledger_entry *block)
{
	struct pool *pool = (struct pool *)(uintptr_t)block->owner;
	if (block->cell & LEDGER_OFFERED)
		ledger_withdraw(block);
	if (atomic_fetch_sub(&pool->blocks, 1) > 1 || atomic_load(&pool->kind) != POOL_ORPHAN)
		return;
	lock();
	end_if_unused(pool);
	pthread_mutex_unlock(&mutex);
}

void pools_orphan(struct pool *pool)
{
	lock();
	atomic_store(&pool->kind, POOL_DYING);
	atomic_fetch_add(&pool->version, 1);
	pthread_mutex_unlock(&mutex);
}

void pools_bury(struct pool *pool, bool is_destroyed)
{
	lock();
	atomic_store(&pool->kind, is_destroyed ? POOL_ORPHAN : POOL_STREAM_ORDERED);
	end_if_unused(pool);
	pthread_mutex_unlock(&mutex);
}
