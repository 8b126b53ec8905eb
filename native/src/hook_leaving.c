/*
 * What cuMemAlloc gave may be freed in the order of a stream. Until the stream gets there the block takes its room, and so
 * it stays charged: an event behind it tells. Blocks of pools need none of this, for their pools are asked; only what a
 * destroyed pool still has is released with the call that frees its last block.
 *
 * A block whose event is not to be had, or for which there is no place, is released at once.
 *
 * Threads: any; one at a time looks, the others do not wait for it. So the driver may be called.
 */
#include "hook_leaving.h"

#include <stdatomic.h>
#include <stddef.h>

#include "context.h"
#include "events.h"
#include "real.h"

#define PLACES 1024u
#define EVENT_WITHOUT_TIME 2u /* CU_EVENT_DISABLE_TIMING */

/* The events. What leaves is in the ledger, by them; with a context both go, and then a place means nothing. */
static _Atomic(CUevent) places[PLACES];
static _Atomic uint32_t taken_places;
static atomic_flag is_settling = ATOMIC_FLAG_INIT;

static CUevent event_in_current(CUstream stream, bool is_thread_form)
{
	CUevent event;
	if (real.cuEventCreate(&event, EVENT_WITHOUT_TIME) != CUDA_SUCCESS)
		return NULL;
	if (events_record(stream, is_thread_form, event) == CUDA_SUCCESS)
		return event;
	real.cuEventDestroy_v2(event);
	return NULL;
}

/* An event behind all that the stream has to do, and the context that it lives in; NULL: not to be had. */
static CUevent event_behind(CUstream stream, bool is_thread_form, CUcontext *ret_context)
{
	struct whereabouts there;
	CUcontext current = NULL;
	if (!events_are_possible() || context_of_stream(stream, &there) != CUDA_SUCCESS ||
	    real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return NULL;
	const bool is_other = current != there.context;
	if (is_other && real.cuCtxPushCurrent_v2(there.context) != CUDA_SUCCESS)
		return NULL;
	const CUevent event = event_in_current(stream, is_thread_form);
	if (is_other)
		real.cuCtxPopCurrent_v2(&current);
	*ret_context = there.context;
	return event;
}

static bool find_place(CUevent event)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		CUevent none = NULL;
		if (atomic_load_explicit(&places[i], memory_order_relaxed) ||
		    !atomic_compare_exchange_strong(&places[i], &none, event))
			continue;
		atomic_fetch_add(&taken_places, 1);
		return true;
	}
	return false;
}

void hook_leave(const struct ledger_entry *block, CUstream stream, bool is_thread_form)
{
	struct ledger_entry left = *block;
	if (block->cell & LEDGER_OFFERED) /* counted twice, if somebody has it open, until it is gone here */
		ledger_withdraw(block);
	left.cell &= (uint16_t)~LEDGER_OFFERED;
	const struct ledger_charge charge = {.size_bytes = left.size_bytes, .cell = left.cell};
	CUcontext context = NULL;
	const CUevent event = event_behind(stream, is_thread_form, &context);
	bool is_kept = event && ledger_commit(&charge, LEDGER_LEAVING, (uintptr_t)event,
					      (uintptr_t)context) == 0;
	if (is_kept && find_place(event))
		return;
	if (is_kept && ledger_take(LEDGER_LEAVING, (uintptr_t)event, &left) < 0)
		return; /* with its context */
	ledger_release(&left);
	if (event)
		real.cuEventDestroy_v2(event);
}

/* Is it gone, and its place free again? */
static bool settle(_Atomic(CUevent) *place)
{
	const CUevent event = atomic_load(place);
	struct ledger_entry block;
	if (!event)
		return false;
	const bool is_known = ledger_take(LEDGER_LEAVING, (uintptr_t)event, &block) == 0;
	if (is_known && !events_is_reached(event)) {
		ledger_put_back(&block);
		return false;
	}
	atomic_store(place, NULL);
	atomic_fetch_sub(&taken_places, 1);
	if (is_known) {
		ledger_release(&block);
		real.cuEventDestroy_v2(event);
	}
	return true;
}

bool hook_leaving_settle(void)
{
	bool is_any = false;
	if (!atomic_load_explicit(&taken_places, memory_order_relaxed) ||
	    atomic_flag_test_and_set_explicit(&is_settling, memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < PLACES; i++)
		is_any |= settle(&places[i]);
	atomic_flag_clear_explicit(&is_settling, memory_order_release);
	return is_any;
}
