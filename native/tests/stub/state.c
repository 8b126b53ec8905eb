/* See state.h for what this is and the rules that follow from POSIX locks. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct state_slot) == 72, "the layout is shared between builds");
_Static_assert(offsetof(struct state_page, slots) == 72, "the layout is shared between builds");
_Static_assert(offsetof(struct state_page, engines) % 64 == 0, "locks in there are aligned");

const char *state_path(bool *ret_is_named)
{
	const char *named = getenv(STATE_ENV);
	bool is_named = named && *named;

	if (ret_is_named)
		*ret_is_named = is_named;
	return is_named ? named : STATE_DEFAULT_PATH;
}

static off_t slot_offset(size_t i)
{
	return (off_t)(offsetof(struct state_page, slots) + i * sizeof(struct state_slot));
}

static int lock_byte(int fd, int command, short type, off_t offset)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
	int r;

	do {
		r = fcntl(fd, command, &lock);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

/* Is the byte locked by another process? *ret_pid is that process as we see it, 0 if we do not. */
static bool byte_is_locked(int fd, off_t offset, uint32_t *ret_pid)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};

	if (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return false;
	*ret_pid = lock.l_pid > 0 ? (uint32_t)lock.l_pid : 0;
	return true;
}

/* The start time of this process in clock ticks: the 22nd field of its stat line. */
static uint64_t start_ticks(void)
{
	char text[1024];
	uint64_t ticks = 0;
	FILE *file = fopen("/proc/self/stat", "re");
	size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;

	if (file)
		fclose(file);
	text[length] = '\0';
	char *rest = strrchr(text, ')'); /* the name before it may hold spaces */

	for (int field = 2; rest && field < 22; field++)
		rest = strchr(rest + 1, ' ');
	if (rest)
		ticks = strtoull(rest, NULL, 10);
	return ticks;
}

/* FNV-1a over pid namespace, pid and start time. */
uint64_t state_fingerprint(void)
{
	static _Thread_local uint64_t fingerprint;
	static _Thread_local pid_t of;

	if (of == getpid()) /* after a fork this is another process */
		return fingerprint;

	struct stat namespace = {0};

	stat("/proc/self/ns/pid", &namespace); /* 0 where /proc is not mounted: still pid and time */
	uint64_t parts[] = {namespace.st_ino, (uint64_t)getpid(), start_ticks()};
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof parts; i++)
		hash = (hash ^ ((const uint8_t *)parts)[i]) * 0x100000001b3ull;
	of = getpid();
	fingerprint = hash ? hash : 1;
	return fingerprint;
}

static int prepare_page(int fd)
{
	int r = lock_byte(fd, F_SETLKW, F_WRLCK, 0);

	if (r < 0)
		return r;

	struct stat st;

	if (fstat(fd, &st) == 0 && (size_t)st.st_size < sizeof(struct state_page)) {
		struct {
			uint64_t magic;
			uint32_t version, size_bytes;
		} head = {STATE_MAGIC, STATE_VERSION, sizeof(struct state_page)};

		fchmod(fd, 0666); /* tenants of any user write here, whatever our umask */
		if (ftruncate(fd, sizeof(struct state_page)) < 0 ||
		    pwrite(fd, &head, sizeof head, 0) < 0)
			r = -errno;
	}
	lock_byte(fd, F_SETLK, F_UNLCK, 0);
	return r;
}

int state_open(const char *path, bool create, struct state *ret_state)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
	bool is_writable = fd >= 0;

	if (fd < 0 && (errno == EACCES || errno == EROFS))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* From here on the descriptor stays open, also on failure: rule 1. */
	if (is_writable) {
		int r = prepare_page(fd);

		if (r < 0)
			return r;
	}
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((size_t)st.st_size != sizeof(struct state_page))
		return -EPROTO;

	void *page = mmap(NULL, sizeof(struct state_page), PROT_READ | (is_writable ? PROT_WRITE : 0),
			  MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;

	const struct state_page *head = page;

	if (head->magic != STATE_MAGIC || head->version != STATE_VERSION) {
		munmap(page, sizeof(struct state_page));
		return -EPROTO;
	}
	ret_state->fd = fd;
	ret_state->page = page;
	ret_state->is_writable = is_writable;
	pthread_mutex_init(&ret_state->mutex, NULL);
	return 0;
}

static bool slot_is_of(const struct state_slot *slot, const char *device)
{
	return strncmp(slot->device, device, STATE_UUID) == 0;
}

/* Does the slot's owner live? *ret_pid as in byte_is_locked; ours is our pid. */
static bool slot_is_alive(struct state *state, size_t i, uint32_t *ret_pid)
{
	uint64_t owner = __atomic_load_n(&state->page->slots[i].owner, __ATOMIC_ACQUIRE);

	if (owner == 0)
		return false;
	if (owner == state_fingerprint()) {
		*ret_pid = (uint32_t)getpid();
		return true;
	}
	return byte_is_locked(state->fd, slot_offset(i), ret_pid);
}

/* Our slot for the device, taking a free one if we have none. Called with byte 0 locked. */
static int claim_slot(struct state *state, const char *device, struct state_slot **ret_slot)
{
	uint64_t me = state_fingerprint();
	size_t free_at = STATE_SLOTS;
	uint32_t pid;

	for (size_t i = 0; i < STATE_SLOTS && state->page->slots[i].owner; i++) {
		struct state_slot *slot = &state->page->slots[i];

		if (slot->owner == me && slot_is_of(slot, device)) {
			*ret_slot = slot;
			return 0;
		}
	}
	/* Slots are taken in order: behind one that was never used, none was. */
	for (size_t i = 0; i < STATE_SLOTS && free_at == STATE_SLOTS; i++)
		if (!slot_is_alive(state, i, &pid))
			free_at = i;
	if (free_at == STATE_SLOTS)
		return -ENOSPC;

	struct state_slot *slot = &state->page->slots[free_at];
	int r = lock_byte(state->fd, F_SETLK, F_WRLCK, slot_offset(free_at));

	if (r < 0)
		return r;
	__atomic_store_n(&slot->bytes, 0, __ATOMIC_RELEASE);
	slot->pid = (uint32_t)getpid();
	memset(slot->device, 0, STATE_UUID);
	memcpy(slot->device, device, strnlen(device, STATE_UUID - 1));
	__atomic_store_n(&slot->owner, me, __ATOMIC_RELEASE);
	*ret_slot = slot;
	return 0;
}

int state_lock(struct state *state)
{
	pthread_mutex_lock(&state->mutex);
	int r = lock_byte(state->fd, F_SETLKW, F_WRLCK, 0);

	if (r < 0)
		pthread_mutex_unlock(&state->mutex);
	return r;
}

void state_unlock(struct state *state)
{
	lock_byte(state->fd, F_SETLK, F_UNLCK, 0);
	pthread_mutex_unlock(&state->mutex);
}

static off_t part_offset(struct state *state, const void *part)
{
	return (off_t)((const char *)part - (const char *)state->page);
}

int state_hold(struct state *state, const void *part)
{
	return lock_byte(state->fd, F_SETLK, F_WRLCK, part_offset(state, part));
}

bool state_owner_lives(struct state *state, uint64_t owner, const void *part, uint32_t *ret_pid)
{
	uint32_t pid = (uint32_t)getpid();
	bool lives = owner == state_fingerprint() ||
		     byte_is_locked(state->fd, part_offset(state, part), &pid);

	if (lives && ret_pid)
		*ret_pid = pid;
	return lives;
}

/* The same as state_used_bytes or more, without asking who lives. */
static uint64_t noted_bytes(struct state *state, const char *device)
{
	uint64_t noted = 0;

	for (size_t i = 0; i < STATE_SLOTS && state->page->slots[i].owner; i++)
		if (slot_is_of(&state->page->slots[i], device))
			noted += __atomic_load_n(&state->page->slots[i].bytes, __ATOMIC_ACQUIRE);
	return noted;
}

int state_reserve(struct state *state, const char *device, uint64_t bytes, uint64_t capacity_bytes)
{
	struct state_slot *slot;
	int r = state_lock(state);

	if (r < 0)
		return r;
	if (bytes > capacity_bytes || (noted_bytes(state, device) > capacity_bytes - bytes &&
				       state_used_bytes(state, device) > capacity_bytes - bytes))
		r = -ENOMEM;
	else
		r = claim_slot(state, device, &slot);
	if (r == 0)
		__atomic_fetch_add(&slot->bytes, bytes, __ATOMIC_ACQ_REL);
	state_unlock(state);
	return r;
}

void state_release(struct state *state, const char *device, uint64_t bytes)
{
	uint64_t me = state_fingerprint();

	pthread_mutex_lock(&state->mutex);
	for (size_t i = 0; i < STATE_SLOTS; i++) {
		struct state_slot *slot = &state->page->slots[i];

		if (slot->owner != me || !slot_is_of(slot, device))
			continue;
		uint64_t held = __atomic_load_n(&slot->bytes, __ATOMIC_ACQUIRE);

		__atomic_store_n(&slot->bytes, held > bytes ? held - bytes : 0, __ATOMIC_RELEASE);
		break;
	}
	pthread_mutex_unlock(&state->mutex);
}

uint64_t state_used_bytes(struct state *state, const char *device)
{
	uint64_t used = 0;
	uint32_t pid;

	for (size_t i = 0; i < STATE_SLOTS; i++)
		if (slot_is_of(&state->page->slots[i], device) && slot_is_alive(state, i, &pid))
			used += __atomic_load_n(&state->page->slots[i].bytes, __ATOMIC_ACQUIRE);
	return used;
}

uint32_t state_processes(struct state *state, const char *device, struct state_process *processes,
			 uint32_t capacity)
{
	uint32_t count = 0;
	uint32_t pid = 0;

	for (size_t i = 0; i < STATE_SLOTS; i++) {
		if (!slot_is_of(&state->page->slots[i], device) || !slot_is_alive(state, i, &pid))
			continue;
		if (count < capacity) {
			processes[count].pid = pid;
			processes[count].bytes =
				__atomic_load_n(&state->page->slots[i].bytes, __ATOMIC_ACQUIRE);
		}
		count++;
	}
	return count;
}
