/*
 * The usage page: the container's books, kept by its processes together.
 *
 * A reservation needs no lock between processes. It is announced first (pending), then everybody's cells are
 * added up: of two racers at least one sees the other, so both may back off, but never both win. Who
 * backed off only for the sake of announcements tries again, in the end under the slow lock.
 *
 * A killed process leaves nothing but its own slot; whoever is refused looks for such slots first.
 * A slot is never moved. Whatever stands in the page may be nonsense, for the container can write
 * it: sums saturate, counts are our own constants, and names are compared, never followed.
 *
 * Order of memory: a grant adds to used before it takes from pending, and a reader reads pending before used, so
 * that bytes on their way from one to the other are never missed.
 */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hamid_paths.h"
#include "liveness.h"
#include "log.h"

#define FREE_TRIES 4              /* before the slow lock is taken */
#define LOCKED_TRIES 50           /* under it */
#define TRY_PAUSE_NS 100000l      /* between them */
#define LOCK_WAIT_NS 1000000000l  /* the longest anyone waits for the slow lock */
#define LOCK_POLL_NS 200000l
#define NO_SLOT UINT32_MAX

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* LOCK_USAGE */
static int page_fd = -1;
static struct stat page_stat; /* what page_fd was opened on: programs close descriptors that are not theirs */
static _Atomic(struct hamid_usage *) mapped;
static _Atomic uint32_t own_slot = NO_SLOT;
static struct process_identity self;

const char *pages_usage_path(void)
{
#ifdef HAMID_TEST_PATHS
	static char path[512];
	const char *dir = getenv("HAMID_TEST_USAGE_DIR");
	if (dir) {
		snprintf(path, sizeof path, "%s/%s", dir, HAMID_USAGE_FILE);
		return path;
	}
#endif
	return HAMID_USAGE_DIR "/" HAMID_USAGE_FILE;
}

static int refuse(const char *why)
{
	log_once(LOG_ERROR,
		 "device memory is refused, for it cannot be counted in %s: %s; the file has to be "
		 "writable for every user of the container: delete the pod so that it is made anew",
		 pages_usage_path(), why);
	return -EPERM;
}

static struct hamid_usage_slot *slot_at(struct hamid_usage *page, uint32_t index)
{
	return (struct hamid_usage_slot *)(page + 1) + index;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* --- record locks; all under LOCK_USAGE --- */

static int set_lock(short type, int64_t at)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	return fcntl(page_fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool is_lock_held(int64_t at)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	return fcntl(page_fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* The kernel drops a dead holder's lock, so only a stopped one makes us wait, and not for ever. */
static int take_slow_lock(void)
{
	for (long waited_ns = 0;; waited_ns += LOCK_POLL_NS) {
		int r = set_lock(F_WRLCK, HAMID_LOCK_SLOW);
		if (r != -EAGAIN && r != -EACCES)
			return r;
		if (waited_ns >= LOCK_WAIT_NS)
			return -EAGAIN;
		pause_ns(LOCK_POLL_NS);
	}
}

static void drop_slow_lock(void)
{
	set_lock(F_UNLCK, HAMID_LOCK_SLOW);
}

/* --- finding the page --- */

static int open_page(bool may_create)
{
	struct stat now;
	if (page_fd >= 0 && fstat(page_fd, &now) == 0 && now.st_ino == page_stat.st_ino &&
	    now.st_dev == page_stat.st_dev)
		return 0;
	/* Closed behind our back, or never opened. What the number means now is not ours to touch. */
	/* O_CREAT only where there is none: with it, Linux refuses others' files in sticky directories. */
	page_fd = open(pages_usage_path(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (page_fd < 0 && errno == ENOENT && may_create)
		page_fd = open(pages_usage_path(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (page_fd < 0)
		return -errno;
	if (fstat(page_fd, &page_stat) < 0 || !S_ISREG(page_stat.st_mode)) {
		close(page_fd);
		page_fd = -1;
		return -EINVAL;
	}
	if (page_stat.st_uid == geteuid() && (page_stat.st_mode & 0666) != 0666)
		fchmod(page_fd, 0666); /* whatever the umask: other users of the container join too */
	uint32_t index = atomic_load(&own_slot);
	if (index != NO_SLOT)
		set_lock(F_WRLCK, HAMID_LOCK_SLOT(index));
	return 0;
}

static bool is_page_of_ours(const struct hamid_usage *page)
{
	return page->magic == HAMID_USAGE_MAGIC && page->abi_version == HAMID_ABI_VERSION &&
	       page->size_bytes == HAMID_USAGE_BYTES && page->header_bytes == sizeof *page &&
	       page->slot_bytes == sizeof(struct hamid_usage_slot) &&
	       page->slot_count == HAMID_SLOTS_MAX && page->device_capacity == HAMID_DEVICES_MAX &&
	       !(page->feature_bits & ~HAMID_USAGE_FEATURES_KNOWN);
}

/* Under the slow lock: make an empty file a page. A maker that died midway left no magic: made again. */
static int make_page(void)
{
	static const struct hamid_usage fresh = {
		.abi_version = HAMID_ABI_VERSION,
		.size_bytes = HAMID_USAGE_BYTES,
		.header_bytes = sizeof(struct hamid_usage),
		.slot_bytes = sizeof(struct hamid_usage_slot),
		.slot_count = HAMID_SLOTS_MAX,
		.device_capacity = HAMID_DEVICES_MAX,
	};
	const uint64_t magic = HAMID_USAGE_MAGIC;
	struct stat now;
	uint64_t found = 0;
	if (fstat(page_fd, &now) < 0)
		return -errno;
	if (now.st_size > 0 && pread(page_fd, &found, sizeof found, 0) == (ssize_t)sizeof found && found)
		return 0;
	if (ftruncate(page_fd, (off_t)HAMID_USAGE_BYTES) < 0)
		return -errno;
	if (pwrite(page_fd, &fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
		return -EIO;
	return pwrite(page_fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic ? 0 : -EIO;
}

/* Under the slow lock. */
static int map_page(void)
{
	if (atomic_load(&mapped))
		return 0;
	int r = make_page();
	if (r < 0)
		return refuse(strerror(-r));
	struct stat now;
	if (fstat(page_fd, &now) < 0 || (uint64_t)now.st_size != HAMID_USAGE_BYTES)
		return refuse("it has the wrong size");
	struct hamid_usage *page =
		mmap(NULL, HAMID_USAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED)
		return refuse(strerror(errno));
	if (!is_page_of_ours(page)) {
		munmap(page, HAMID_USAGE_BYTES);
		return refuse("it is not a page of this version");
	}
	atomic_store(&mapped, page);
	return 0;
}

/* --- slots; all under the slow lock --- */

static bool is_slot_gone(const struct hamid_usage_slot *slot, uint32_t index)
{
	struct process_identity owner = {
		.pid = slot->pid,
		.start_time_ticks = slot->start_time_ticks,
		.pid_namespace = slot->pid_namespace,
	};
	if (owner.pid == 0 || owner.pid > INT32_MAX)
		return true; /* nonsense */
	if (owner.pid_namespace == self.pid_namespace)
		return liveness_is_gone(&owner);
	return !is_lock_held(HAMID_LOCK_SLOT(index));
}

static void clear_slot(struct hamid_usage_slot *slot)
{
	for (uint32_t i = 0; i < HAMID_DEVICES_MAX; i++) {
		__atomic_store_n(&slot->cells[i].pending_bytes, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&slot->cells[i].used_bytes, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&slot->state, HAMID_SLOT_FREE, __ATOMIC_SEQ_CST);
}

static uint32_t slots_end(struct hamid_usage *page)
{
	uint32_t end = __atomic_load_n(&page->slots_high_water, __ATOMIC_SEQ_CST);
	return end < HAMID_SLOTS_MAX ? end : HAMID_SLOTS_MAX;
}

/* Clear the slots of processes that are gone; how many. */
static uint32_t reap(struct hamid_usage *page)
{
	uint32_t reaped = 0;
	const uint32_t end = slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_slot *slot = slot_at(page, i);
		if (i == atomic_load(&own_slot) ||
		    __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == HAMID_SLOT_FREE)
			continue;
		if (!is_slot_gone(slot, i))
			continue;
		clear_slot(slot);
		reaped++;
	}
	return reaped;
}

static uint32_t find_free_slot(struct hamid_usage *page)
{
	for (uint32_t i = 0; i < HAMID_SLOTS_MAX; i++)
		if (__atomic_load_n(&slot_at(page, i)->state, __ATOMIC_ACQUIRE) == HAMID_SLOT_FREE)
			return i;
	return NO_SLOT;
}

static int claim_slot(struct hamid_usage *page)
{
	uint32_t index = find_free_slot(page);
	if (index == NO_SLOT && reap(page) > 0)
		index = find_free_slot(page);
	if (index == NO_SLOT)
		return refuse("all its slots are taken");
	int r = set_lock(F_WRLCK, HAMID_LOCK_SLOT(index));
	if (r < 0)
		return refuse(strerror(-r));

	self = liveness_self();
	struct hamid_usage_slot *slot = slot_at(page, index);
	clear_slot(slot);
	slot->pid = self.pid;
	slot->start_time_ticks = self.start_time_ticks;
	slot->pid_namespace = self.pid_namespace;
	slot->generation++;
	if (__atomic_load_n(&page->slots_high_water, __ATOMIC_RELAXED) <= index)
		__atomic_store_n(&page->slots_high_water, index + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->state, HAMID_SLOT_ACTIVE, __ATOMIC_SEQ_CST);
	atomic_store(&own_slot, index);
	return 0;
}

/* --- fork and exit --- */

static void after_fork_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	atomic_store(&own_slot, NO_SLOT);
	memset(&self, 0, sizeof self);
	if (page_fd >= 0) {
		/* Only the child's copy; the parent's keeps the lock. */
		struct stat now;
		if (fstat(page_fd, &now) == 0 && now.st_ino == page_stat.st_ino &&
		    now.st_dev == page_stat.st_dev)
			close(page_fd);
		page_fd = -1;
	}
	struct hamid_usage *page = atomic_exchange(&mapped, NULL);
	if (page)
		munmap(page, HAMID_USAGE_BYTES);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* Tells the node's daemon at once; for the limit the slot counts until the kernel has taken the process away. */
__attribute__((destructor)) static void say_good_bye(void)
{
	struct hamid_usage *page = atomic_load(&mapped);
	uint32_t index = atomic_load(&own_slot);
	if (page && index != NO_SLOT)
		__atomic_store_n(&slot_at(page, index)->state, HAMID_SLOT_EXITING, __ATOMIC_SEQ_CST);
}

/* --- joining --- */

/* Open, lock, map, and take a slot if asked; -ENOENT when there is no page and none may be made. */
static int attach(bool with_slot)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	int r = open_page(with_slot);
	if (r < 0)
		return r == -ENOENT && !with_slot ? r : refuse(strerror(-r));
	r = take_slow_lock();
	if (r < 0)
		return refuse(strerror(-r));
	r = map_page();
	if (r == 0 && with_slot && atomic_load(&own_slot) == NO_SLOT)
		r = claim_slot(atomic_load(&mapped));
	drop_slow_lock();
	return r;
}

static int join(void)
{
	if (atomic_load(&own_slot) != NO_SLOT)
		return 0;
	pthread_mutex_lock(&mutex);
	int r = atomic_load(&own_slot) == NO_SLOT ? attach(true) : 0;
	pthread_mutex_unlock(&mutex);
	return r;
}

/* Run `act` under the slow lock; -EAGAIN when it is not to be had in time. */
static int with_slow_lock(int (*act)(struct hamid_usage *page, void *argument), void *argument)
{
	pthread_mutex_lock(&mutex);
	int r = open_page(false);
	if (r == 0)
		r = take_slow_lock();
	if (r == 0) {
		r = act(atomic_load(&mapped), argument);
		drop_slow_lock();
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

/* The index of a name in the page, or -ENOENT. */
static int find_device(struct hamid_usage *page, const char *uuid)
{
	uint32_t count = __atomic_load_n(&page->device_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < count && i < HAMID_DEVICES_MAX; i++)
		if (strncmp(page->device_uuids[i], uuid, HAMID_UUID_BYTES) == 0)
			return (int)i;
	return -ENOENT;
}

static int act_add_device(struct hamid_usage *page, void *argument)
{
	const char *uuid = argument;
	int found = find_device(page, uuid);
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
	const uint32_t end = slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_cell *cell = &slot_at(page, i)->cells[device];
		uint64_t pending = __atomic_load_n(&cell->pending_bytes, __ATOMIC_SEQ_CST);
		uint64_t used = __atomic_load_n(&cell->used_bytes, __ATOMIC_SEQ_CST);
		totals.pending_bytes = add_saturating(totals.pending_bytes, pending);
		totals.used_bytes = add_saturating(totals.used_bytes, used);
	}
	return totals;
}

struct claim {
	uint32_t device;
	uint64_t size_bytes;
	uint64_t limit_bytes;
};

/* One try. 0: granted; -ENOMEM: over the limit for certain; -EAGAIN: only with what is announced. */
static int try_claim(struct hamid_usage *page, const struct claim *claim)
{
	struct hamid_usage_cell *cell = &slot_at(page, atomic_load(&own_slot))->cells[claim->device];
	if (claim->size_bytes > claim->limit_bytes)
		return -ENOMEM;
	__atomic_fetch_add(&cell->pending_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	struct totals totals = add_up(page, claim->device);
	bool is_granted =
		add_saturating(totals.used_bytes, totals.pending_bytes) <= claim->limit_bytes;
	if (is_granted)
		__atomic_fetch_add(&cell->used_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&cell->pending_bytes, claim->size_bytes, __ATOMIC_SEQ_CST);
	if (is_granted)
		return 0;
	return totals.used_bytes > claim->limit_bytes - claim->size_bytes ? -ENOMEM : -EAGAIN;
}

static int act_claim(struct hamid_usage *page, void *argument)
{
	const struct claim *claim = argument;
	reap(page);
	int r = -EAGAIN;
	for (int i = 0; i < LOCKED_TRIES && r == -EAGAIN; i++) {
		r = try_claim(page, claim);
		if (r == -EAGAIN)
			pause_ns(TRY_PAUSE_NS);
	}
	return r;
}

int pages_reserve(const char *uuid, uint64_t size_bytes, uint64_t limit_bytes, uint32_t *ret_device)
{
	int saved_errno = errno;
	int r = join();
	struct hamid_usage *page = atomic_load(&mapped);
	if (r == 0)
		r = find_device(page, uuid);
	if (r == -ENOENT) {
		char name[HAMID_UUID_BYTES];
		snprintf(name, sizeof name, "%s", uuid);
		r = with_slow_lock(act_add_device, name);
	}
	if (r < 0)
		goto out;
	struct claim claim = {
		.device = (uint32_t)r,
		.size_bytes = size_bytes,
		.limit_bytes = limit_bytes,
	};
	r = -EAGAIN;
	for (int i = 0; i < FREE_TRIES && r == -EAGAIN; i++) {
		r = try_claim(page, &claim);
		if (r == -EAGAIN)
			sched_yield();
	}
	if (r < 0)
		r = with_slow_lock(act_claim, &claim); /* before a no, the dead are looked for */
	if (r == 0)
		*ret_device = claim.device;
out:
	errno = saved_errno;
	return r == 0 || r == -EPERM ? r : -ENOMEM;
}

void pages_release(uint32_t device, uint64_t size_bytes)
{
	struct hamid_usage *page = atomic_load(&mapped);
	uint32_t slot = atomic_load(&own_slot);
	if (!page || slot == NO_SLOT)
		return;
	uint64_t *used = &slot_at(page, slot)->cells[device].used_bytes;
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
	int r = atomic_load(&mapped) ? 0 : attach(false);
	if (r == 0 && self.pid == 0)
		self = liveness_self();
	pthread_mutex_unlock(&mutex);

	struct hamid_usage *page = atomic_load(&mapped);
	int device = r == 0 ? find_device(page, uuid) : -ENOENT;
	uint64_t used = 0;
	if (device >= 0) {
		with_slow_lock(act_reap, NULL);
		used = add_up(page, (uint32_t)device).used_bytes;
	}
	errno = saved_errno;
	if (r < 0 && r != -ENOENT)
		return r;
	*ret_used_bytes = used;
	return 0;
}
