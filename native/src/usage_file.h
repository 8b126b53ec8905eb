/*
 * The usage page as a file: opening, making, mapping, and its record locks. What stands in it is
 * pages_usage.c's business.
 *
 * The descriptor is kept for the locks alone. Programs close descriptors that are not theirs, and
 * the number may mean another file by then: each use looks first, and opens anew if need be.
 *
 * Threads: callers hold LOCK_USAGE, except for usage_file_page().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hamid_pages.h"

#define USAGE_NO_SLOT UINT32_MAX

/* Have the file open. 0 or -errno; -ENOENT: there is none, and none may be made. */
int usage_file_open(bool may_create);

/* Under the slow lock: map it, making a page of an empty file. 0 or -EPERM (said once). */
int usage_file_map(void);

/* The mapped page, or NULL. */
struct hamid_usage *usage_file_page(void);

/* The lock between processes: 0, or -EAGAIN while another has it. Pre: the file is open. */
int usage_file_try_slow(void);
void usage_file_unlock_slow(void);

/* A slot's lock is held for life. */
int usage_file_lock_slot(uint32_t index);
bool usage_file_is_slot_locked(uint32_t index);

/* Say once that memory cannot be counted, and why; -EPERM. */
int usage_file_refuse(const char *why);

/* In a forked child: let go of what is the parent's. */
void usage_file_after_fork(void);
