/*
 * The usage page: the container's books, kept by its processes together.
 *
 * A reservation needs no lock between processes (usage_books.c). Who backed off only for the sake of
 * others' announcements tries again, in the end under the slow lock.
 *
 * A killed process leaves nothing but its own slot; whoever is refused looks for such slots first.
 * A slot is never moved. Whatever stands in the page may be nonsense, for the container can write
 * it: sums saturate, counts are our own constants, and names are compared, never followed.
 */
#include "pages_usage.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hamid_paths.h"
#include "liveness.h"
#include "pages.h"
#include "usage_books.h"
#include "usage_file.h"
#include "usage_slots.h"

#define FREE_TRIES 4         /* before the slow lock is taken */
#define LOCKED_TRIES 50      /* under it */
#define TRY_PAUSE_NS 100000l /* between them */

#define LOCK_POLL_NS 200000l
#define LOCK_WAIT_NS 400000000ull /* the longest anyone waits for the slow lock */
#define LOCK_STUCK_NS 20000000ull /* the same once that was in vain, until it is had again */
#define LOCK_TRIES 10 /* at least, for who was not let run in between */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* LOCK_USAGE */
static _Atomic uint32_t own_slot = USAGE_NO_SLOT;
static _Atomic uint32_t fork_count;
static struct process_identity self;
static bool is_stuck; /* LOCK_USAGE: the last wait for the slow lock was in vain */

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Open the file and have the slow lock: 0, -EAGAIN when it is not to be had in time, or why the file is not. The
 * kernel drops a dead holder's lock, so only a stopped one makes us wait: once, not at each call. LOCK_USAGE is held,
 * but let go of in between: so all threads wait at the same time, and what it guards may have changed.
 */
static int lock_slow(bool may_create)
{
	const uint64_t from_ns = now_ns();
	for (int tries = 1;; tries++) {
		int r = usage_file_open(may_create);
		if (r == 0)
			r = usage_file_try_slow();
		if (r == 0)
			is_stuck = false;
		if (r != -EAGAIN)
			return r;
		const uint64_t patience_ns = is_stuck ? LOCK_STUCK_NS : LOCK_WAIT_NS;
		if (tries >= LOCK_TRIES && now_ns() - from_ns >= patience_ns) {
			is_stuck = true;
			return r;
		}
		pthread_mutex_unlock(&mutex);
		nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_NS}, NULL);
		pthread_mutex_lock(&mutex);
	}
}

/* --- slots; all under the slow lock --- */

static uint32_t reap(struct hamid_usage *page)
{
	pages_shares_catch_up(page);
	if (atomic_load(&own_slot) == USAGE_NO_SLOT)
		usage_slots_forget(page, &self);
	return usage_slots_reap(page, atomic_load(&own_slot), self.pid_namespace);
}

static int claim_slot(struct hamid_usage *page)
{
	self = liveness_self();
	usage_slots_forget(page, &self);
	uint32_t index = usage_slots_find_free(page);
	if (index == USAGE_NO_SLOT && reap(page) > 0)
		index = usage_slots_find_free(page);
	if (index == USAGE_NO_SLOT)
		return usage_file_refuse("all its slots are taken");
	int r = usage_file_lock_slot(index);
	if (r < 0)
		return usage_file_refuse(strerror(-r));

	struct hamid_usage_slot *slot = usage_slot_at(page, index);
	usage_slots_clear(page, index);
	slot->pid = self.pid;
	slot->start_time_ticks = self.start_time_ticks;
	slot->pid_namespace = self.pid_namespace;
	slot->generation++;
	slot->enforced = 0;
	usage_slots_raise_end(page, index);
	__atomic_store_n(&slot->state, HAMID_SLOT_ACTIVE, __ATOMIC_SEQ_CST);
	atomic_store(&own_slot, index);
	return 0;
}

/* --- fork and exit --- */

static void after_fork_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	atomic_store(&own_slot, USAGE_NO_SLOT);
	atomic_fetch_add(&fork_count, 1);
	memset(&self, 0, sizeof self);
	pages_shares_after_fork();
	usage_file_after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/*
 * For the node's daemon. For the limit the slot counts until the kernel has the process gone. A child that
 * was made past fork() has its parent's memory, but the slot is not its.
 */
__attribute__((destructor)) static void say_good_bye(void)
{
	struct hamid_usage *page = usage_file_page();
	uint32_t index = atomic_load(&own_slot);
	if (page && index != USAGE_NO_SLOT &&
	    __atomic_load_n(&usage_slot_at(page, index)->pid, __ATOMIC_RELAXED) == (uint32_t)getpid())
		__atomic_store_n(&usage_slot_at(page, index)->state, HAMID_SLOT_EXITING, __ATOMIC_SEQ_CST);
}

/* --- joining --- */

/* Open, lock, map, and take a slot if asked; -ENOENT when there is no page and none may be made. */
static int attach(bool with_slot)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	int r = lock_slow(with_slot);
	if (r < 0)
		return r == -ENOENT && !with_slot ? r : usage_file_refuse(strerror(-r));
	r = usage_file_map();
	if (r == 0 && with_slot && atomic_load(&own_slot) == USAGE_NO_SLOT)
		r = claim_slot(usage_file_page());
	usage_file_unlock_slow();
	return r;
}

int usage_join(void)
{
	if (atomic_load(&own_slot) != USAGE_NO_SLOT)
		return 0;
	pthread_mutex_lock(&mutex);
	int r = atomic_load(&own_slot) == USAGE_NO_SLOT ? attach(true) : 0;
	pthread_mutex_unlock(&mutex);
	return r;
}

uint32_t usage_own_slot(void)
{
	return atomic_load(&own_slot);
}

int usage_under_slow_lock(int (*act)(struct hamid_usage *page, void *argument), void *argument)
{
	pthread_mutex_lock(&mutex);
	int r = lock_slow(false);
	if (r == 0) {
		r = act(usage_file_page(), argument);
		usage_file_unlock_slow();
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

static int act_reap(struct hamid_usage *page, void *argument)
{
	(void)argument;
	return (int)reap(page);
}

/* --- devices --- */

static int act_add_device(struct hamid_usage *page, void *argument)
{
	const char *uuid = argument;
	int found = usage_device_find(page, uuid);
	if (found >= 0)
		return found;
	uint32_t index = __atomic_load_n(&page->device_count, __ATOMIC_RELAXED);
	if (index >= HAMID_DEVICES_MAX)
		return -ENOSPC;
	snprintf(page->device_uuids[index], HAMID_UUID_BYTES, "%s", uuid);
	__atomic_store_n(&page->device_count, index + 1, __ATOMIC_RELEASE);
	return (int)index;
}

/* --- the books --- */

static int act_claim(struct hamid_usage *page, void *argument)
{
	const struct usage_claim *claim = argument;
	reap(page);
	int r = -EAGAIN;
	for (int i = 0; i < LOCKED_TRIES && r == -EAGAIN; i++) {
		r = usage_try_claim(page, atomic_load(&own_slot), claim);
		if (r == -EAGAIN)
			nanosleep(&(struct timespec){.tv_nsec = TRY_PAUSE_NS}, NULL);
	}
	return r;
}

/* Join, and find the cell of a name. */
static int cell_of(char *name, uint16_t *ret_cell)
{
	int r = usage_join();
	if (r == 0)
		r = usage_device_find(usage_file_page(), name);
	if (r == -ENOENT)
		r = usage_under_slow_lock(act_add_device, name);
	if (r < 0)
		return r == -EPERM ? r : -ENOMEM;
	*ret_cell = (uint16_t)r;
	return 0;
}

/* The cell of a device's name with a suffix, once found kept in `place` until the next fork. */
static int known_cell(const struct pages_device *device, const char *suffix,
		      _Atomic uint64_t *place, uint16_t *ret_cell)
{
	const uint64_t forks = (uint64_t)atomic_load_explicit(&fork_count, memory_order_relaxed) << 32;
	uint64_t known = atomic_load_explicit(place, memory_order_acquire);
	if (known > forks) {
		*ret_cell = (uint16_t)(known - forks - 1);
		return 0;
	}
	char name[HAMID_UUID_BYTES];
	if (snprintf(name, sizeof name, "%s%s", device->name, suffix) >= (int)sizeof name)
		return -ENOMEM;
	int saved_errno = errno;
	int r = cell_of(name, ret_cell);
	if (r == 0)
		atomic_store(place, forks + *ret_cell + 1);
	errno = saved_errno;
	return r;
}

int pages_device_cell(struct pages_device *device, uint16_t *ret_cell)
{
	return known_cell(device, "", &device->cell, ret_cell);
}

int pages_fixed_cell(struct pages_device *device, uint16_t *ret_cell)
{
	return known_cell(device, HAMID_FIXED_SUFFIX, &device->fixed_cell, ret_cell);
}

struct hamid_budget *pages_device_budget(struct pages_device *device)
{
	uint16_t cell;
	if (pages_device_cell(device, &cell) < 0)
		return NULL;
	struct hamid_usage *page = usage_file_page();
	return page ? &page->budgets[cell] : NULL;
}

void pages_note_enforced(uint32_t enforced)
{
	struct hamid_usage *page = usage_file_page();
	const uint32_t slot = atomic_load(&own_slot);
	if (!page || slot == USAGE_NO_SLOT)
		return;
	uint32_t *said = &usage_slot_at(page, slot)->enforced;
	if (__atomic_load_n(said, __ATOMIC_RELAXED) != enforced)
		__atomic_store_n(said, enforced, __ATOMIC_RELAXED);
}

int pages_claim(uint16_t cell, uint64_t size_bytes, uint64_t limit_bytes)
{
	struct usage_claim claim = {
		.device = cell,
		.size_bytes = size_bytes,
		.limit_bytes = limit_bytes,
	};
	const uint32_t slot = atomic_load(&own_slot);
	if (usage_claim_quickly(usage_file_page(), slot, &claim))
		return 0;
	int r = usage_try_claim(usage_file_page(), slot, &claim);
	if (r == 0)
		return 0;
	int saved_errno = errno;
	for (int i = 1; i < FREE_TRIES && r == -EAGAIN; i++) {
		sched_yield();
		r = usage_try_claim(usage_file_page(), slot, &claim);
	}
	if (r < 0)
		r = usage_under_slow_lock(act_claim, &claim); /* before a no, the dead are looked for */
	errno = saved_errno;
	return r == 0 || r == -EPERM ? r : -ENOMEM;
}

void pages_force(uint16_t cell, uint64_t size_bytes)
{
	struct hamid_usage *page = usage_file_page();
	uint32_t slot = atomic_load(&own_slot);
	if (page && slot != USAGE_NO_SLOT)
		__atomic_fetch_add(&usage_slot_at(page, slot)->cells[cell].used_bytes, size_bytes,
				   __ATOMIC_SEQ_CST);
}

void pages_release(uint32_t device, uint64_t size_bytes)
{
	struct hamid_usage *page = usage_file_page();
	uint32_t slot = atomic_load(&own_slot);
	if (!page || slot == USAGE_NO_SLOT)
		return;
	uint64_t *used = &usage_slot_at(page, slot)->cells[device].used_bytes;
	uint64_t before = __atomic_load_n(used, __ATOMIC_SEQ_CST);
	uint64_t after;
	do
		after = before > size_bytes ? before - size_bytes : 0;
	while (!__atomic_compare_exchange_n(used, &before, after, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST));
}

int pages_used(const char *uuid, uint64_t *ret_used_bytes)
{
	int saved_errno = errno;
	pthread_mutex_lock(&mutex);
	int r = usage_file_page() ? 0 : attach(false);
	if (r == 0 && self.pid == 0)
		self = liveness_self();
	pthread_mutex_unlock(&mutex);

	struct hamid_usage *page = usage_file_page();
	int device = r == 0 ? usage_device_find(page, uuid) : -ENOENT;
	uint64_t used = 0;
	if (device >= 0) {
		usage_under_slow_lock(act_reap, NULL);
		used = usage_used_bytes(page, (uint32_t)device);
	}
	errno = saved_errno;
	if (r < 0 && r != -ENOENT)
		return r;
	*ret_used_bytes = used;
	return 0;
}
