#include "usage_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hamid_paths.h"
#include "log.h"
#include "sys.h"
#include "pages.h"

#define OPEN_TRIES 5
#define OPEN_PAUSE_NS 1000000l

static int page_fd = -1;
static struct stat page_stat; /* what page_fd was opened on */
static uint32_t locked_slot = USAGE_NO_SLOT;
static _Atomic(struct hamid_usage *) mapped;

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

int usage_file_refuse(const char *why)
{
	log_once(LOG_ERROR,
		 "device memory is refused, for it cannot be counted in %s: %s; the file has to be "
		 "writable for every user of the container: delete the pod so that it is made anew",
		 pages_usage_path(), why);
	return -EPERM;
}

struct hamid_usage *usage_file_page(void)
{
	return atomic_load(&mapped);
}

static int set_lock(short type, int64_t at)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	return fcntl(page_fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

int usage_file_lock_slot(uint32_t index)
{
	int r = set_lock(F_WRLCK, HAMID_LOCK_SLOT(index));
	if (r == 0)
		locked_slot = index;
	return r;
}

bool usage_file_is_slot_locked(uint32_t index)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = HAMID_LOCK_SLOT(index),
		.l_len = 1,
	};
	return fcntl(page_fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

int usage_file_try_slow(void)
{
	int r = set_lock(F_WRLCK, HAMID_LOCK_SLOW);
	return r == -EACCES ? -EAGAIN : r;
}

void usage_file_unlock_slow(void)
{
	set_lock(F_UNLCK, HAMID_LOCK_SLOW);
}

static bool is_still_ours(void)
{
	struct stat now;
	return page_fd >= 0 && sys_fstat(page_fd, &now) == 0 && now.st_ino == page_stat.st_ino &&
	       now.st_dev == page_stat.st_dev;
}

/*
 * Open it, or make it. Another user's process may be making it at this moment: then it is there,
 * but not yet open to us. No O_CREAT on what is there: Linux refuses that for others' files in
 * sticky directories.
 */
static int open_or_make(bool may_create)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	for (int tries = 1;; tries++) {
		int fd = open(pages_usage_path(), flags);
		if (fd < 0 && errno == ENOENT && may_create)
			fd = open(pages_usage_path(), flags | O_CREAT | O_EXCL, 0666);
		if (fd >= 0)
			return fd;
		if ((errno != EACCES && errno != EEXIST) || tries == OPEN_TRIES)
			return -errno;
		nanosleep(&(struct timespec){.tv_nsec = OPEN_PAUSE_NS}, NULL);
	}
}

int usage_file_open(bool may_create)
{
	if (is_still_ours())
		return 0;
	/* Closed behind our back, or never opened; what the number means now is not ours to touch. */
	int fd = open_or_make(may_create);
	page_fd = fd < 0 ? -1 : fd;
	if (fd < 0)
		return fd;
	if (sys_fstat(page_fd, &page_stat) < 0 || !S_ISREG(page_stat.st_mode)) {
		close(page_fd);
		page_fd = -1;
		return -EINVAL;
	}
	if (page_stat.st_uid == geteuid() && (page_stat.st_mode & 0666) != 0666)
		fchmod(page_fd, 0666); /* whatever the umask: other users of the container join too */
	if (locked_slot != USAGE_NO_SLOT)
		set_lock(F_WRLCK, HAMID_LOCK_SLOT(locked_slot));
	return 0;
}

static bool is_page_of_ours(const struct hamid_usage *page)
{
	return page->magic == HAMID_USAGE_MAGIC && page->abi_version == HAMID_USAGE_VERSION &&
	       page->size_bytes == HAMID_USAGE_BYTES && page->header_bytes == sizeof *page &&
	       page->slot_bytes == sizeof(struct hamid_usage_slot) &&
	       page->slot_count == HAMID_SLOTS_MAX && page->device_capacity == HAMID_DEVICES_MAX &&
	       !(page->feature_bits & ~HAMID_USAGE_FEATURES_KNOWN);
}

/*
 * Is it of an earlier version, left by a library that this container had before, and is nobody in it any more?
 * Who reads and writes a page holds the lock of his slot.
 */
static bool is_left_behind(const struct hamid_usage *head)
{
	if (head->magic != HAMID_USAGE_MAGIC || head->abi_version < 1 ||
	    head->abi_version >= HAMID_USAGE_VERSION)
		return false;
	for (uint32_t i = 0; i < HAMID_SLOTS_MAX; i++)
		if (usage_file_is_slot_locked(i))
			return false;
	return true;
}

/* Make an empty file a page. A maker that died midway left no magic: made again. */
static int make_page(void)
{
	static const struct hamid_usage fresh = {
		.abi_version = HAMID_USAGE_VERSION,
		.size_bytes = HAMID_USAGE_BYTES,
		.header_bytes = sizeof(struct hamid_usage),
		.slot_bytes = sizeof(struct hamid_usage_slot),
		.slot_count = HAMID_SLOTS_MAX,
		.device_capacity = HAMID_DEVICES_MAX,
	};
	static const uint8_t blank[4096];
	const uint64_t magic = HAMID_USAGE_MAGIC;
	struct stat now;
	struct hamid_usage found = {0};
	if (sys_fstat(page_fd, &now) < 0)
		return -errno;
	ssize_t length = pread(page_fd, &found, sizeof found, 0);
	if (now.st_size > 0 && length >= (ssize_t)sizeof found.magic && found.magic) {
		if (!is_left_behind(&found))
			return 0;
		for (off_t at = 0; at < now.st_size; at += (off_t)sizeof blank)
			if (pwrite(page_fd, blank, sizeof blank, at) != (ssize_t)sizeof blank)
				return -EIO;
	}
	if (ftruncate(page_fd, (off_t)HAMID_USAGE_BYTES) < 0)
		return -errno;
	if (pwrite(page_fd, &fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
		return -EIO;
	return pwrite(page_fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic ? 0 : -EIO;
}

int usage_file_map(void)
{
	if (atomic_load(&mapped))
		return 0;
	int r = make_page();
	if (r < 0)
		return usage_file_refuse(strerror(-r));
	struct stat now;
	if (sys_fstat(page_fd, &now) < 0 || (uint64_t)now.st_size != HAMID_USAGE_BYTES)
		return usage_file_refuse("it has the wrong size");
	struct hamid_usage *page =
		mmap(NULL, HAMID_USAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED)
		return usage_file_refuse(strerror(errno));
	if (!is_page_of_ours(page)) {
		munmap(page, HAMID_USAGE_BYTES);
		return usage_file_refuse("it is not a page of this version");
	}
	atomic_store(&mapped, page);
	return 0;
}

void usage_file_after_fork(void)
{
	if (is_still_ours())
		close(page_fd); /* only the child's copy: the parent's keeps the lock */
	page_fd = -1;
	locked_slot = USAGE_NO_SLOT;
	struct hamid_usage *page = atomic_exchange(&mapped, NULL);
	if (page)
		munmap(page, HAMID_USAGE_BYTES);
}
