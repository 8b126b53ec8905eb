/*
 * The live page: which rate each device may be used at now. The host stores its words in place, so it is mapped;
 * whether it still does, its heartbeat tells.
 *
 * It is the host's, in the directory that the container cannot write. One that cannot be read, or that
 * goes with another control page, says nothing: then the control page's caps hold.
 */
#include "pages_live.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hamid_pages.h"
#include "hamid_paths.h"
#include "sys.h"

#define AHEAD_NS 100000000ull /* of the reader's clock, which is read earlier */

static _Atomic(const struct hamid_live *) mapped;
static struct stat seen; /* what is mapped, or would not do */

static bool is_page_of_ours(const struct hamid_live *page, size_t length)
{
	return page->magic == HAMID_LIVE_MAGIC && page->abi_version == HAMID_LIVE_VERSION &&
	       page->header_bytes == sizeof *page &&
	       page->device_bytes == sizeof(struct hamid_live_device) &&
	       page->device_count <= HAMID_DEVICES_MAX && page->size_bytes == length &&
	       length == sizeof *page + page->device_count * sizeof(struct hamid_live_device);
}

static const struct hamid_live *map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	const struct hamid_live *page = NULL;
	if (sys_fstat(fd, &seen) == 0 && S_ISREG(seen.st_mode) &&
	    (size_t)seen.st_size >= sizeof *page && (size_t)seen.st_size <= HAMID_LIVE_BYTES_MAX) {
		void *at = mmap(NULL, (size_t)seen.st_size, PROT_READ, MAP_SHARED, fd, 0);
		page = at == MAP_FAILED ? NULL : at;
	}
	close(fd);
	if (page && !is_page_of_ours(page, (size_t)seen.st_size)) {
		munmap((void *)(uintptr_t)page, (size_t)seen.st_size);
		page = NULL;
	}
	return page;
}

void pages_live_look(const char *dir)
{
	char path[512];
	struct stat now;
	snprintf(path, sizeof path, "%s/%s", dir, HAMID_LIVE_FILE);
	if (sys_stat(path, &now) < 0) {
		atomic_store(&mapped, NULL);
		memset(&seen, 0, sizeof seen);
		return;
	}
	if (now.st_ino == seen.st_ino && now.st_dev == seen.st_dev && now.st_size == seen.st_size)
		return;
	/* The old one stays mapped, for others may be reading it; the host seldom makes a new one. */
	atomic_store(&mapped, map(path));
}

/* What it says of a device; NULL: nothing that counts now. */
static const struct hamid_live_device *said_of(uint32_t index, uint64_t generation, uint64_t now_ns)
{
	const struct hamid_live *page = atomic_load_explicit(&mapped, memory_order_acquire);
	if (!page || index >= page->device_count ||
	    __atomic_load_n(&page->generation, __ATOMIC_RELAXED) != generation)
		return NULL;
	const uint64_t beat_ns = __atomic_load_n(&page->heartbeat_ns, __ATOMIC_ACQUIRE);
	if (now_ns > beat_ns + HAMID_LIVE_STALE_NS || beat_ns > now_ns + AHEAD_NS)
		return NULL;
	return (const struct hamid_live_device *)(page + 1) + index;
}

uint64_t pages_live_rate(uint32_t index, uint64_t generation, uint64_t now_ns)
{
	const struct hamid_live_device *device = said_of(index, generation, now_ns);
	if (!device)
		return HAMID_RATE_UNSAID;
	const uint64_t rate = __atomic_load_n(&device->rate_permille, __ATOMIC_RELAXED);
	return rate == HAMID_RATE_STOP || rate <= HAMID_RATE_MAX_PERMILLE ? rate : HAMID_RATE_UNSAID;
}

uint64_t pages_live_flags(uint32_t index)
{
	const struct hamid_live *page = atomic_load_explicit(&mapped, memory_order_acquire);
	if (!page || index >= page->device_count)
		return 0;
	const struct hamid_live_device *devices = (const struct hamid_live_device *)(page + 1);
	return __atomic_load_n(&devices[index].flags, __ATOMIC_RELAXED);
}

uint64_t pages_live_uncounted(uint32_t index, uint64_t generation, uint64_t now_ns)
{
	const struct hamid_live_device *device = said_of(index, generation, now_ns);
	return device ? __atomic_load_n(&device->uncounted_bytes, __ATOMIC_RELAXED) : 0;
}

void pages_live_after_fork(void)
{
	memset(&seen, 0, sizeof seen);
}
