/*
 * The places of processes in the usage page: whose are gone, which are free.
 *
 * Threads: callers hold LOCK_SLOW, but for usage_slot_at() and usage_slots_end().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hamid_pages.h"
#include "liveness.h"
#include "usage_file.h"

static inline struct hamid_usage_slot *usage_slot_at(struct hamid_usage *page, uint32_t index)
{
	return (struct hamid_usage_slot *)(page + 1) + index;
}

/* Where the slots end that were ever used. */
uint32_t usage_slots_end(struct hamid_usage *page);

/* A slot is about to be used. */
void usage_slots_raise_end(struct hamid_usage *page, uint32_t index);

/* Clear the slots of processes that are gone, but for `own`; how many. */
uint32_t usage_slots_reap(struct hamid_usage *page, uint32_t own, uint64_t pid_namespace);

/*
 * Clear what this process held as another program, before exec: whose lock went with that program, while pid, start
 * time and, once this one has joined, the mapping are as before.
 */
void usage_slots_forget(struct hamid_usage *page, const struct process_identity *self);

/* A free one that can be locked, or USAGE_NO_SLOT. */
uint32_t usage_slots_find_free(struct hamid_usage *page);

/* Nothing is counted in it any more, but for shares that others have open. */
void usage_slots_clear(struct hamid_usage *page, uint32_t index);

/* The slot of what is left (HAMID_SLOT_LEFT), taken if there is none and it may be; or USAGE_NO_SLOT. */
uint32_t usage_slots_left(struct hamid_usage *page, bool may_take);

/* The index of a device's name in the page, or -ENOENT. No lock. */
int usage_device_find(struct hamid_usage *page, const char *uuid);
