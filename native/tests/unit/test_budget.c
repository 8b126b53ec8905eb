/* budget.c: who waits sleeps, and is woken when there is more than was thought. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"
#include "test.h"

#define MS 1000000ull
#define LONGEST_NS (20 * MS) /* that anyone sleeps at once */
#define TRIES 200

static struct hamid_budget budget;
static _Atomic int sleeper; /* its thread id, once it is on its way to sleep */
static _Atomic bool is_up;  /* again */
static uint64_t slept_ns;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *sleep_once(void *argument)
{
	const uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
	atomic_store(&sleeper, (int)syscall(SYS_gettid));
	budget_sleep(&budget, 1000 * MS);
	slept_ns = clock_ns(CLOCK_MONOTONIC) - from_ns;
	atomic_store(&is_up, true);
	return argument;
}

/* Is the thread off its processor, waiting? Between its word and that there is nothing else to wait for. */
static bool is_asleep(int thread)
{
	char path[64], state[256] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const ssize_t length = read(fd, state, sizeof state - 1);
	close(fd);
	const char *name_end = length > 0 ? strrchr(state, ')') : NULL;
	return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* How long did it sleep that was told of more while it did? 0: it was not seen asleep. */
static uint64_t sleep_and_be_woken(void)
{
	pthread_t thread;
	bool is_woken = false;
	int id;
	atomic_store(&sleeper, 0);
	atomic_store(&is_up, false);
	budget.due_ns = budget_now_ns() + 1000 * MS;
	if (pthread_create(&thread, NULL, sleep_once, NULL))
		exit(2);
	while (!(id = atomic_load(&sleeper)))
		;
	while (!is_woken && !atomic_load(&is_up))
		if (is_asleep(id)) {
			budget_correct(&budget, -(int64_t)MS, 500);
			is_woken = true;
		}
	pthread_join(thread, NULL);
	return is_woken ? slept_ns : 0;
}

int main(void)
{
	CHECK("who waits uses no processor")
	{
		const uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
		const uint64_t cpu_from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		for (int i = 0; i < 20; i++)
			budget_sleep(&budget, 1000 * MS);
		const uint64_t used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_from_ns;
		const uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - from_ns;
		EXPECT(took_ns >= 20 * LONGEST_NS);
		EXPECT(used_ns * 10 < took_ns);
	}

	CHECK("who waits is woken when what was charged is given back")
	{
		uint64_t shortest_ns = UINT64_MAX;
		for (int i = 0; i < TRIES && shortest_ns >= LONGEST_NS; i++) {
			const uint64_t ns = sleep_and_be_woken();
			shortest_ns = ns && ns < shortest_ns ? ns : shortest_ns;
		}
		EXPECT(shortest_ns < LONGEST_NS); /* as nobody is who is not woken */
	}
	return test_report();
}
