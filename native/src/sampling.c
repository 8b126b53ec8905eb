#include "sampling.h"

#include <stdatomic.h>

#include "hamid_pages.h"

#define EVERY_NS 500000ull        /* from one that is drawn to the next */
#define REMEMBERED_NS 500000000ull /* of the device's launches; then the past counts half */
#define MEAN_MAX 4096u

static struct {
	_Atomic uint64_t at_ns, passed_ns, launches;
} seen[HAMID_DEVICES_MAX];

static __thread __attribute__((tls_model("initial-exec"))) struct {
	uint64_t chance; /* 0: not begun */
	int64_t left;
} lot;

/* What threads say at the same moment may get lost: it is a mean. */
static void note(int ordinal, uint32_t launches, uint64_t now_ns)
{
	const uint64_t before_ns = atomic_exchange_explicit(&seen[ordinal].at_ns, now_ns, memory_order_relaxed);
	uint64_t passed_ns = atomic_load_explicit(&seen[ordinal].passed_ns, memory_order_relaxed);
	uint64_t count = atomic_load_explicit(&seen[ordinal].launches, memory_order_relaxed) + launches;
	if (before_ns && now_ns > before_ns)
		passed_ns += now_ns - before_ns;
	for (; passed_ns > REMEMBERED_NS; passed_ns /= 2)
		count /= 2;
	atomic_store_explicit(&seen[ordinal].passed_ns, passed_ns, memory_order_relaxed);
	atomic_store_explicit(&seen[ordinal].launches, count, memory_order_relaxed);
}

static int64_t drawn(int ordinal, uint64_t now_ns)
{
	const uint64_t passed_ns = atomic_load_explicit(&seen[ordinal].passed_ns, memory_order_relaxed);
	const uint64_t count = atomic_load_explicit(&seen[ordinal].launches, memory_order_relaxed);
	const uint64_t mean = passed_ns ? count * EVERY_NS / passed_ns : 0;
	if (!lot.chance)
		lot.chance = now_ns * 0x9e3779b97f4a7c15ull | 1;
	lot.chance ^= lot.chance << 13;
	lot.chance ^= lot.chance >> 7;
	lot.chance ^= lot.chance << 17;
	return 1 + (int64_t)(lot.chance % (2 * (mean < MEAN_MAX ? mean : MEAN_MAX) + 1));
}

bool sampling_is_drawn(int ordinal, uint32_t launches, uint64_t now_ns)
{
	if (ordinal < 0 || ordinal >= HAMID_DEVICES_MAX)
		return false;
	note(ordinal, launches, now_ns);
	lot.left -= launches;
	if (lot.left > 0)
		return false;
	lot.left = drawn(ordinal, now_ns);
	return true;
}

uint32_t sampling_left(void)
{
	return lot.left > 1 ? (uint32_t)(lot.left - 1) : 0;
}
