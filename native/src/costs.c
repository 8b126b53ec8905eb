#include "costs.h"

#include <stdatomic.h>

#define PLACES 4096
#define BOUND_PARTS 64
#define OLD_PARTS 3 /* of four: how much the past counts */
#define ERRATIC_FIRST 4096u
#define ERRATIC_MAX (1u << 24)
#define NOISE_PARTS 8 /* one of so many more or less, of what is about so much, is taken for noise */

/* Torn pairs cost one wrong estimate, which is corrected like any other. */
static struct {
	_Atomic uint64_t kind;
	_Atomic uint32_t cost_ns;
	_Atomic uint32_t erratic_left, erratic_for; /* launches that are measured */
	_Atomic uint64_t first_of, first_ns; /* a kind that is not measured yet */
} places[PLACES];

uint64_t costs_kind(const void *handle, uint64_t blocks)
{
	const uint64_t size = blocks ? 64u - (uint64_t)__builtin_clzll(blocks) : 0;
	uint64_t kind = ((uint64_t)(uintptr_t)handle + size) * 0x9e3779b97f4a7c15ull;
	kind ^= kind >> 32;
	return (kind + size) | 1;
}

uint32_t costs_get(uint64_t kind)
{
	const uint64_t at = kind >> 1 & (PLACES - 1);
	if (atomic_load_explicit(&places[at].kind, memory_order_relaxed) != kind)
		return 0;
	return atomic_load_explicit(&places[at].cost_ns, memory_order_relaxed);
}

static uint32_t erratic_left(uint64_t kind)
{
	const uint64_t at = kind >> 1 & (PLACES - 1);
	if (atomic_load_explicit(&places[at].kind, memory_order_relaxed) != kind)
		return 0;
	return atomic_load_explicit(&places[at].erratic_left, memory_order_relaxed);
}

bool costs_is_erratic(uint64_t kind)
{
	return erratic_left(kind) != 0;
}

void costs_be_erratic(uint64_t kind)
{
	const uint64_t at = kind >> 1 & (PLACES - 1);
	if (atomic_load_explicit(&places[at].kind, memory_order_relaxed) != kind)
		return;
	uint32_t length = atomic_load_explicit(&places[at].erratic_for, memory_order_relaxed);
	if (!length)
		length = ERRATIC_FIRST;
	else if (!erratic_left(kind) && length < ERRATIC_MAX)
		length *= 4;
	atomic_store_explicit(&places[at].erratic_for, length, memory_order_relaxed);
	atomic_store_explicit(&places[at].erratic_left, length, memory_order_relaxed);
}

/* A host that was held up for milliseconds says no more than one that was for microseconds. */
static uint64_t raised(uint64_t old, uint64_t more)
{
	return ((more < old ? more : old) + BOUND_PARTS - 1) / BOUND_PARTS;
}

void costs_learn(uint64_t kind, uint64_t cost_ns, enum costs_word word)
{
	const uint64_t at = kind >> 1 & (PLACES - 1);
	const uint64_t old = costs_get(kind);
	uint64_t cost = old ? (old * OLD_PARTS + cost_ns) / (OLD_PARTS + 1) : cost_ns;
	/* Were noise believed in what it takes away only, all would seem cheap. */
	const bool is_noise = word == COSTS_ABOUT_AT_MOST && cost_ns - old < old / NOISE_PARTS;
	if (old && word != COSTS_EXACTLY && cost_ns > old && !is_noise)
		cost = old + raised(old, cost_ns - old);
	else if (word == COSTS_AT_MOST)
		cost = cost_ns;
	if (cost > UINT32_MAX)
		cost = UINT32_MAX;
	const uint32_t left = erratic_left(kind);
	if (!old)
		atomic_store_explicit(&places[at].erratic_for, 0, memory_order_relaxed);
	if (!old || left)
		atomic_store_explicit(&places[at].erratic_left, left ? left - 1 : 0, memory_order_relaxed);
	atomic_store_explicit(&places[at].cost_ns, cost ? (uint32_t)cost : 1, memory_order_relaxed);
	atomic_store_explicit(&places[at].kind, kind, memory_order_relaxed);
}

uint64_t costs_first_ns(uint64_t kind, uint64_t now_ns)
{
	const uint64_t at = kind >> 1 & (PLACES - 1);
	if (atomic_load_explicit(&places[at].first_of, memory_order_acquire) == kind)
		return atomic_load_explicit(&places[at].first_ns, memory_order_relaxed);
	atomic_store_explicit(&places[at].first_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&places[at].first_of, kind, memory_order_release);
	return 0;
}
