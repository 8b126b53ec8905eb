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
#define SAY_EVERY_NS 2000000ull

#ifdef HAMID_TEST_PATHS
/* The simulated driver's clock, where it is virtual: it stands still but for who waits. */
extern bool hamid_sim_is_virtual(void) __attribute__((weak));
extern uint64_t hamid_sim_now_ns(void) __attribute__((weak));
extern void hamid_sim_sleep(uint64_t ns) __attribute__((weak));
#define IS_VIRTUAL (hamid_sim_is_virtual && hamid_sim_is_virtual())
#else
#define IS_VIRTUAL false
#define hamid_sim_now_ns() 0
#define hamid_sim_sleep(ns) (void)(ns)
#endif

static uint64_t time_of(clockid_t clock)
{
	if (IS_VIRTUAL)
		return hamid_sim_now_ns();
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t budget_now_ns(void)
{
	return time_of(CLOCK_MONOTONIC);
}

uint64_t budget_about_ns(void)
{
	return time_of(CLOCK_MONOTONIC_COARSE);
}

/* A futex is 32 bits: of the word, those that always change. */
static uint32_t *futex_of(uint64_t *word)
{
	return (uint32_t *)word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Once in a while is enough: others read it, too, and would lose the line. */
void budget_want(struct hamid_budget *budget, uint64_t now_ns)
{
	const uint64_t said_ns = __atomic_load_n(&budget->wanted_ns, __ATOMIC_RELAXED);
	if (now_ns - said_ns > SAY_EVERY_NS)
		__atomic_store_n(&budget->wanted_ns, now_ns, __ATOMIC_RELAXED);
}

uint64_t budget_try(struct hamid_budget *budget, uint64_t now_ns, uint64_t cost_ns, uint64_t rate)
{
	uint64_t due = __atomic_load_n(&budget->due_ns, __ATOMIC_RELAXED);
	for (;;) {
		const struct throttle_verdict verdict = throttle_step(due, now_ns, cost_ns, rate);
		if (verdict.wait_ns)
			__atomic_store_n(&budget->waited_ns, now_ns, __ATOMIC_RELAXED);
		if (verdict.due_ns != due &&
		    !__atomic_compare_exchange_n(&budget->due_ns, &due, verdict.due_ns, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		if (!verdict.wait_ns)
			__atomic_fetch_add(&budget->charged_ns, cost_ns, __ATOMIC_RELAXED);
		return verdict.wait_ns;
	}
}

void budget_sleep(struct hamid_budget *budget, uint64_t wait_ns)
{
	if (IS_VIRTUAL) {
		hamid_sim_sleep(wait_ns < SLEEP_MAX_NS ? wait_ns : SLEEP_MAX_NS);
		return;
	}
	uint64_t *word = &budget->due_ns;
	const int saved_errno = errno;
	const uint32_t seen = __atomic_load_n(futex_of(word), __ATOMIC_RELAXED);
	const struct timespec timeout = {
		.tv_nsec = (long)(wait_ns < SLEEP_MAX_NS ? wait_ns : SLEEP_MAX_NS),
	};
	syscall(SYS_futex, futex_of(word), FUTEX_WAIT, seen, &timeout, NULL, 0);
	errno = saved_errno;
}

void budget_correct(struct hamid_budget *budget, int64_t more_ns, uint64_t rate)
{
	uint64_t *word = &budget->due_ns;
	__atomic_fetch_add(&budget->charged_ns, (uint64_t)more_ns, __ATOMIC_RELAXED);
	uint64_t due = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t corrected;
	do
		corrected = throttle_correct(due, budget_now_ns(), more_ns, rate);
	while (!__atomic_compare_exchange_n(word, &due, corrected, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	if (more_ns > -WORTH_WAKING_NS)
		return;
	const int saved_errno = errno;
	syscall(SYS_futex, futex_of(word), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	errno = saved_errno;
}
