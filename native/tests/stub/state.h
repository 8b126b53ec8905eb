/*
 * What simulated CUDA processes hold and compute, shared by all of them through one file.
 *
 * libcuda.so.1 (simulated) writes: reserve and release. libnvidia-ml.so.1 (simulated) reads: used
 * bytes and processes. The file may be mounted into containers; the layout is fixed-width. What
 * devices compute is in the same file: engine.h.
 *
 * A slot belongs to one process and one device. Its owner holds a POSIX record lock on the slot's
 * first byte for as long as it lives, so the kernel says at once when a process is gone, however
 * it died, and translates its pid into the namespace of whoever asks. A slot whose lock is free
 * counts for nothing and is taken by the next newcomer.
 *
 * Rules that follow from POSIX locks:
 * 1. A process that closes any descriptor of the file loses its locks: nobody here ever closes it.
 * 2. A process never sees its own lock: its own slot is told by `owner`, a fingerprint of pid
 *    namespace, pid and start time.
 *
 * Threads: reserve and release may be called from any thread (one mutex per struct state; the
 * first byte of the file is locked between processes while a reservation is decided).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

#define STATE_DEFAULT_PATH "/usr/local/hamid-sim/state"
#define STATE_ENV "HAMID_SIM_STATE"

#define STATE_MAGIC 0x4d495344494d4148ull /* "HAMIDSIM" */
#define STATE_VERSION 3u
#define STATE_SLOTS 1024
#define STATE_UUID 48
#define STATE_ENGINES 32

struct state_slot {
	uint64_t owner;   /* fingerprint; 0 = never used */
	uint64_t bytes;   /* what it holds now */
	uint32_t pid;     /* as its owner sees itself */
	uint32_t padding;
	char device[STATE_UUID]; /* uuid of card or MIG instance, NUL-terminated */
};

struct state_page {
	uint64_t magic;
	uint32_t version;
	uint32_t size_bytes; /* of the whole file */
	uint8_t reserved[56];
	struct state_slot slots[STATE_SLOTS];
	uint8_t alignment[56]; /* engines begin at a multiple of 64 */
	struct engine engines[STATE_ENGINES];
};

struct state {
	int fd;
	struct state_page *page;
	pthread_mutex_t mutex;
	bool is_writable;
};

struct state_process {
	uint32_t pid; /* in the caller's pid namespace; 0 when not visible there */
	uint64_t bytes;
};

/* The path named by the environment, or the fixed one; *ret_is_named says which. */
const char *state_path(bool *ret_is_named);

/*
 * Map the file; `create` makes it (mode 0666) when absent. Returns 0 or -errno: -ENOENT when absent
 * and not created, -EPROTO when it is of another version. A reader may lack write permission.
 */
int state_open(const char *path, bool create, struct state *ret_state);

/* Take `bytes` more of a device that has `capacity_bytes` for all. 0, -ENOMEM, -ENOSPC (no slot). */
int state_reserve(struct state *state, const char *device, uint64_t bytes, uint64_t capacity_bytes);

/* Give back; never below zero. */
void state_release(struct state *state, const char *device, uint64_t bytes);

/* What all living processes hold of a device. */
uint64_t state_used_bytes(struct state *state, const char *device);

/* The living processes on a device; returns how many there are, writes at most `capacity`. */
uint32_t state_processes(struct state *state, const char *device, struct state_process *processes,
			 uint32_t capacity);

/* --- for engine.c --- */

/* One at a time, among threads and processes. */
int state_lock(struct state *state);
void state_unlock(struct state *state);

/* A number no other living process has. */
uint64_t state_fingerprint(void);

/* Hold a record lock on the first byte of this part of the page for as long as we live. */
int state_hold(struct state *state, const void *part);

/* Does the owner of the part, which holds its lock, live? *ret_pid (or NULL): as we see it, or 0. */
bool state_owner_lives(struct state *state, uint64_t owner, const void *part, uint32_t *ret_pid);
