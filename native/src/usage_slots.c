#include "usage_slots.h"

#include <errno.h>
#include <string.h>

#include "hamid_paths.h"
#include "liveness.h"
#include "usage_shares.h"

/*
 * A process of another pid namespace is judged by its lock alone. One of ours is there if its pid
 * is; unless it lives on as another program (exec): then it has neither lock nor page any more. The
 * lock alone would not do here, for a program may have closed our descriptor.
 */
static bool is_slot_gone(const struct hamid_usage_slot *slot, uint32_t index,
			 uint64_t pid_namespace)
{
	struct process_identity owner = {
		.pid = slot->pid,
		.start_time_ticks = slot->start_time_ticks,
		.pid_namespace = slot->pid_namespace,
	};
	if (owner.pid == 0 || owner.pid > INT32_MAX)
		return true; /* nonsense */
	if (owner.pid_namespace != pid_namespace)
		return !usage_file_is_slot_locked(index);
	return liveness_is_gone(&owner) || (!usage_file_is_slot_locked(index) &&
					    liveness_lacks_mapping(owner.pid, HAMID_USAGE_FILE));
}

void usage_slots_clear(struct hamid_usage *page, uint32_t index)
{
	struct hamid_usage_slot *slot = usage_slot_at(page, index);
	usage_shares_forget(page, index);
	for (uint32_t i = 0; i < HAMID_DEVICES_MAX; i++) {
		__atomic_store_n(&slot->cells[i].pending_bytes, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&slot->cells[i].used_bytes, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&slot->state, HAMID_SLOT_FREE, __ATOMIC_SEQ_CST);
}

uint32_t usage_slots_end(struct hamid_usage *page)
{
	uint32_t end = __atomic_load_n(&page->slots_high_water, __ATOMIC_SEQ_CST);
	return end < HAMID_SLOTS_MAX ? end : HAMID_SLOTS_MAX;
}

uint32_t usage_slots_reap(struct hamid_usage *page, uint32_t own, uint64_t pid_namespace)
{
	uint32_t reaped = 0;
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_slot *slot = usage_slot_at(page, i);
		const uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
		if (i == own || state == HAMID_SLOT_FREE || state == HAMID_SLOT_LEFT)
			continue;
		if (!is_slot_gone(slot, i, pid_namespace))
			continue;
		usage_slots_clear(page, i);
		reaped++;
	}
	return reaped;
}

void usage_slots_forget(struct hamid_usage *page, const struct process_identity *self)
{
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		struct hamid_usage_slot *slot = usage_slot_at(page, i);
		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != HAMID_SLOT_FREE &&
		    slot->pid == self->pid && slot->start_time_ticks == self->start_time_ticks &&
		    slot->pid_namespace == self->pid_namespace && !usage_file_is_slot_locked(i))
			usage_slots_clear(page, i);
	}
}

uint32_t usage_slots_find_free(struct hamid_usage *page)
{
	/* Locked, though its owner is gone: by a child that he made past fork(), which has his descriptor. */
	for (uint32_t i = 0; i < HAMID_SLOTS_MAX; i++)
		if (__atomic_load_n(&usage_slot_at(page, i)->state, __ATOMIC_ACQUIRE) == HAMID_SLOT_FREE &&
		    !usage_file_is_slot_locked(i))
			return i;
	return USAGE_NO_SLOT;
}

void usage_slots_raise_end(struct hamid_usage *page, uint32_t index)
{
	if (__atomic_load_n(&page->slots_high_water, __ATOMIC_RELAXED) <= index)
		__atomic_store_n(&page->slots_high_water, index + 1, __ATOMIC_SEQ_CST);
}

uint32_t usage_slots_left(struct hamid_usage *page, bool may_take)
{
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++)
		if (__atomic_load_n(&usage_slot_at(page, i)->state, __ATOMIC_ACQUIRE) == HAMID_SLOT_LEFT)
			return i;
	const uint32_t index = may_take ? usage_slots_find_free(page) : USAGE_NO_SLOT;
	if (index == USAGE_NO_SLOT)
		return index;
	struct hamid_usage_slot *slot = usage_slot_at(page, index);
	slot->pid = 0;
	slot->pid_namespace = 0;
	usage_slots_raise_end(page, index);
	__atomic_store_n(&slot->state, HAMID_SLOT_LEFT, __ATOMIC_SEQ_CST);
	return index;
}

int usage_device_find(struct hamid_usage *page, const char *uuid)
{
	uint32_t count = __atomic_load_n(&page->device_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < count && i < HAMID_DEVICES_MAX; i++)
		if (strncmp(page->device_uuids[i], uuid, HAMID_UUID_BYTES) == 0)
			return (int)i;
	return -ENOENT;
}
