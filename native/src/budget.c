#include "budget.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "throttle.h"

#define SLEEP_MAX_NS 20000000ull /* measurements and the control page have to be looked at */
#define WORTH_WAKING_NS 100000   /* of GPU time */

uint64_t budget_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A futex is 32 bits: of the word, those that always change. */
static uint32_t *futex_of(uint64_t *word)
{
	return (uint32_t *)word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

uint64_t budget_try(uint64_t *word, uint64_t cost_ns, uint32_t percent)
{
	uint64_t due = __atomic_load_n(word, __ATOMIC_RELAXED);
	for (;;) {
		const struct throttle_verdict verdict =
			throttle_step(due, budget_now_ns(), cost_ns, percent);
		if (verdict.due_ns == due ||
		    __atomic_compare_exchange_n(word, &due, verdict.due_ns, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return verdict.wait_ns;
	}
}

void budget_sleep(uint64_t *word, uint64_t wait_ns)
{
	const int saved_errno = errno;
	const uint32_t seen = __atomic_load_n(futex_of(word), __ATOMIC_RELAXED);
	const struct timespec timeout = {
		.tv_nsec = (long)(wait_ns < SLEEP_MAX_NS ? wait_ns : SLEEP_MAX_NS),
	};
	syscall(SYS_futex, futex_of(word), FUTEX_WAIT, seen, &timeout, NULL, 0);
	errno = saved_errno;
}

void budget_correct(uint64_t *word, int64_t more_ns, uint32_t percent)
{
	uint64_t due = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t corrected;
	do
		corrected = throttle_correct(due, budget_now_ns(), more_ns, percent);
	while (!__atomic_compare_exchange_n(word, &due, corrected, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	if (more_ns > -WORTH_WAKING_NS)
		return;
	const int saved_errno = errno;
	syscall(SYS_futex, futex_of(word), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	errno = saved_errno;
}
