/* What the usage page tells besides sums: who holds what, and what was used of a device's time. */
#include <errno.h>

#include "liveness.h"
#include "pages.h"
#include "usage_file.h"
#include "usage_slots.h"

int pages_processes(const char *uuid, struct pages_process *ret_processes, uint32_t capacity)
{
	uint64_t used;
	int r = pages_used(uuid, &used); /* attaches, and clears who is gone */
	struct hamid_usage *page = usage_file_page();
	if (r < 0 || !page)
		return r;
	const int device = usage_device_find(page, uuid);
	if (device < 0)
		return 0;
	int saved_errno = errno;
	const uint64_t here = liveness_self().pid_namespace;
	uint32_t count = 0;
	const uint32_t end = usage_slots_end(page);
	for (uint32_t i = 0; i < end; i++) {
		const struct hamid_usage_slot *slot = usage_slot_at(page, i);
		const uint64_t held =
			__atomic_load_n(&slot->cells[device].used_bytes, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == HAMID_SLOT_FREE ||
		    slot->pid_namespace != here)
			continue;
		if (count < capacity)
			ret_processes[count] = (struct pages_process){slot->pid, held};
		count++;
	}
	errno = saved_errno;
	return (int)count;
}

int pages_budget_told(const char *uuid, struct hamid_budget *ret_budget)
{
	uint64_t used;
	int r = pages_used(uuid, &used); /* attaches */
	struct hamid_usage *page = usage_file_page();
	if (r < 0)
		return r;
	const int device = page ? usage_device_find(page, uuid) : -ENOENT;
	if (device < 0)
		return -ENOENT;
	const struct hamid_budget *budget = &page->budgets[device];
	*ret_budget = (struct hamid_budget){
		.due_ns = __atomic_load_n(&budget->due_ns, __ATOMIC_RELAXED),
		.charged_ns = __atomic_load_n(&budget->charged_ns, __ATOMIC_RELAXED),
		.wanted_ns = __atomic_load_n(&budget->wanted_ns, __ATOMIC_RELAXED),
		.waited_ns = __atomic_load_n(&budget->waited_ns, __ATOMIC_RELAXED),
	};
	return 0;
}
