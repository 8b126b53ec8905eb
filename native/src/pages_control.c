/*
 * The control page: found by its fixed path, read again whenever the file at the path is another.
 *
 * The host replaces the file (new file, rename) in a directory that is mounted read-only, so one
 * stat tells, and one in a while is enough. Nothing the container can write, its environment included, has a say here.
 */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hamid_paths.h"
#include "log.h"
#include "pages_live.h"
#include "sys.h"

enum place { PLACE_UNKNOWN, PLACE_OUTSIDE, PLACE_CONTAINER };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* LOCK_CONTROL */
static enum place place;
static bool is_trusted;      /* `limits` holds what the file at the path says */
static struct stat seen;     /* the file as it was when last read */
static struct limits limits;

/* For who takes no lock: what was found (0, -ENOENT, -EPERM), when to look again, how often read. */
#define NOT_LOOKED 1
#define CORRECTION_MAX 4 /* times, or a fourth */
static _Atomic int standing = NOT_LOOKED;
static _Atomic uint64_t looked_ns, look_at_ns;
static _Atomic uint64_t epoch = 1;

const char *pages_limits_dir(void)
{
#ifdef HAMID_TEST_PATHS
	const char *dir = getenv("HAMID_TEST_LIMITS_DIR");
	if (dir)
		return dir;
#endif
	return HAMID_LIMITS_DIR;
}

static uint64_t look_every_ns(void)
{
#ifdef HAMID_TEST_PATHS
	const char *milliseconds = getenv("HAMID_TEST_LOOK_EVERY_MS"); /* without: always */
	return milliseconds ? strtoull(milliseconds, NULL, 10) * 1000000 : 0;
#else
	return HAMID_LOOK_EVERY_NS;
#endif
}

/* The coarse clock, which takes a few ns and is a few ms late. */
static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void refuse(const char *path, const char *why)
{
	log_write(LOG_ERROR,
		  "device memory is refused, for %s cannot be trusted: %s; the node's hamid daemon "
		  "writes it: see its log, then delete the pod so that it is written anew",
		  path, why);
}

/* The whole file, bounded; the length or -errno. */
static ssize_t read_page(int fd, void *buffer, size_t capacity)
{
	size_t length = 0;
	while (length < capacity) {
		ssize_t n = read(fd, (char *)buffer + length, capacity - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Read the file at `path`. NULL, or why it will not do. Holds LOCK_CONTROL. */
static const char *read_limits(const char *path)
{
	uint8_t page[HAMID_CONTROL_BYTES_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* be it a pipe: nothing is waited for */
	if (fd < 0)
		return strerror(errno);
	ssize_t length = sys_fstat(fd, &seen) < 0 ? -errno : read_page(fd, page, sizeof page);
	close(fd);
	if (length < 0)
		return strerror((int)-length);
	const char *why;
	return limits_parse(page, (size_t)length, &limits, &why) < 0 ? why : NULL;
}

static void refresh(void)
{
	static bool is_refused;
	static struct stat refused; /* which is not complained of again */
	char path[512];
	snprintf(path, sizeof path, "%s/%s", pages_limits_dir(), HAMID_CONTROL_FILE);

	struct stat now = {0};
	const char *why;
	if (sys_stat(path, &now) == 0) {
		if (is_same_file(&now, &seen))
			return;
		why = read_limits(path);
	} else {
		why = strerror(errno);
		memset(&seen, 0, sizeof seen);
	}
	if (why && !(is_refused && is_same_file(&now, &refused)))
		refuse(path, why);
	is_refused = why != NULL;
	refused = now;
	if (is_trusted || !why)
		atomic_fetch_add(&epoch, 1);
	is_trusted = !why;
}

/* Decided once: a mount does not come or go while a process runs. */
static enum place find_place(void)
{
	struct stat dir;
	if (sys_stat(pages_limits_dir(), &dir) == 0)
		return PLACE_CONTAINER;
	return errno == ENOENT || errno == ENOTDIR ? PLACE_OUTSIDE : PLACE_CONTAINER;
}

static void after_fork_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(&seen, 0, sizeof seen);
	atomic_store(&standing, NOT_LOOKED);
	pages_live_after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* Look, and say what the page is worth. Holds LOCK_CONTROL. */
static int look(void)
{
	int found = -ENOENT;
	if (place == PLACE_UNKNOWN)
		place = find_place();
	if (place == PLACE_CONTAINER) {
		refresh();
		pages_live_look(pages_limits_dir());
		found = is_trusted ? 0 : -EPERM;
	}
	const uint64_t at_ns = now_ns();
	atomic_store(&looked_ns, at_ns);
	atomic_store(&look_at_ns, at_ns + look_every_ns());
	atomic_store(&standing, found);
	return found;
}

/* As pages_limit(). Holds LOCK_CONTROL; `limits` is what `epoch` says. */
static int limit_of(const char *uuid, struct device_limit *ret_limit)
{
	int r = look();
	if (r < 0)
		return r;
	const struct device_limit *found = limits_find(&limits, uuid);
	struct device_limit limit = {.memory_limit_bytes = 0, .index = UINT32_MAX};
	if (found)
		limit = *found;
	else
		snprintf(limit.uuid, sizeof limit.uuid, "%s", uuid);
	limit.uncounted_bytes = pages_live_uncounted(limit.index, limits.generation, now_ns());
	*ret_limit = limit;
	return 0;
}

static void lock(void)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	pthread_mutex_lock(&mutex);
}

int pages_limit(const char *uuid, struct device_limit *ret_limit)
{
	int saved_errno = errno;
	lock();
	int r = limit_of(uuid, ret_limit);
	pthread_mutex_unlock(&mutex);
	errno = saved_errno;
	return r;
}

bool pages_are_ours(void)
{
	const int found = atomic_load_explicit(&standing, memory_order_acquire);
	if (found != NOT_LOOKED)
		return found != -ENOENT;
	int saved_errno = errno;
	lock();
	if (place == PLACE_UNKNOWN)
		place = find_place();
	const bool is_ours = place == PLACE_CONTAINER;
	pthread_mutex_unlock(&mutex);
	errno = saved_errno;
	return is_ours;
}

void pages_look_again(void)
{
	atomic_store(&look_at_ns, 0);
}

int pages_device_limit(struct pages_device *device, uint64_t *ret_limit_bytes)
{
	int found = atomic_load_explicit(&standing, memory_order_acquire);
	if (found == -ENOENT) /* decided once */
		return found;
	if (found != NOT_LOOKED && now_ns() < atomic_load_explicit(&look_at_ns, memory_order_relaxed)) {
		if (found < 0)
			return found;
		if (atomic_load_explicit(&device->limit_epoch, memory_order_acquire) ==
		    atomic_load_explicit(&epoch, memory_order_acquire)) {
			*ret_limit_bytes =
				atomic_load_explicit(&device->limit_bytes, memory_order_relaxed);
			return 0;
		}
	}
	int saved_errno = errno;
	struct device_limit limit;
	lock();
	int r = limit_of(device->uuid, &limit);
	if (r == 0) {
		if (memcmp(device->name, limit.uuid, sizeof device->name) != 0) /* others may be reading it */
			memcpy(device->name, limit.uuid, sizeof device->name);
		atomic_store(&device->limit_bytes, limit.memory_limit_bytes);
		atomic_store(&device->core_percent, limit.core_percent);
		atomic_store(&device->index, limit.index);
		atomic_store(&device->mode, limits.mode);
		atomic_store(&device->flags, limits.flags);
		atomic_store(&device->generation, limits.generation);
		atomic_store(&device->context_bytes, limit.context_bytes);
		atomic_store(&device->fixed_limit_bytes, limit.fixed_limit_bytes);
		atomic_store(&device->limit_epoch, atomic_load(&epoch));
		*ret_limit_bytes = limit.memory_limit_bytes;
	}
	pthread_mutex_unlock(&mutex);
	errno = saved_errno;
	return r;
}

uint64_t pages_device_uncounted(const struct pages_device *device)
{
	return pages_live_uncounted(atomic_load_explicit(&device->index, memory_order_relaxed),
				    atomic_load_explicit(&device->generation, memory_order_relaxed),
				    atomic_load_explicit(&looked_ns, memory_order_relaxed));
}

/* What the live page adds to a hard cap is NVML's correction; more would be a mistake. */
static uint64_t corrected(uint64_t cap_permille, uint64_t live)
{
	if (live == HAMID_RATE_UNSAID || live == HAMID_RATE_STOP)
		return cap_permille;
	if (live < cap_permille / CORRECTION_MAX)
		return cap_permille / CORRECTION_MAX;
	return live < cap_permille * CORRECTION_MAX ? live : cap_permille * CORRECTION_MAX;
}

int pages_device_rate(struct pages_device *device, uint64_t at_ns, struct pages_rate *ret_rate)
{
	uint64_t limit_bytes;
	const int found = pages_device_limit(device, &limit_bytes);
	struct pages_rate rate = {0};
	if (found < 0 && found != -ENOENT &&
	    !atomic_load_explicit(&device->limit_epoch, memory_order_relaxed))
		return found;
	if (found != -ENOENT) {
		const uint32_t percent =
			atomic_load_explicit(&device->core_percent, memory_order_relaxed);
		const uint32_t mode = atomic_load_explicit(&device->mode, memory_order_relaxed);
		const uint32_t index = atomic_load_explicit(&device->index, memory_order_relaxed);
		const uint64_t live =
			pages_live_rate(index,
					atomic_load_explicit(&device->generation, memory_order_relaxed),
					at_ns);
		rate.flags = atomic_load_explicit(&device->flags, memory_order_relaxed);
		rate.is_contended = live != HAMID_RATE_UNSAID &&
				    (pages_live_flags(index) & HAMID_LIVE_CONTENDED);
		rate.percent = percent < 100 ? percent : 0;
		rate.is_live = live != HAMID_RATE_UNSAID;
		if (rate.is_live && mode != HAMID_MODE_HARD) {
			rate.permille = live;
		} else if (rate.percent) {
			rate.permille = corrected(10 * rate.percent, live);
		} else if (mode != HAMID_MODE_HARD) {
			/* All of it, until somebody decides: who then has to stop has not queued seconds of work. */
			rate.permille = 1000;
			rate.is_live = true;
		}
	}
	*ret_rate = rate;
	return 0;
}
