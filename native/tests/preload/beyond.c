/*
 * Threads that all at once ask for more than there is, each twice: how long do they wait for a no?
 *
 *   beyond THREADS MIB
 *
 * It has a block of a pool before, so that pools are trimmed before a no. "ready" before they begin, on a line from stdin.
 * One JSON line: what each waited in ns the first time and the second, and what all of it took.
 */
#include <pthread.h>
#include <stdio.h>

#include "../loaded_driver.h"

#define THREADS_MAX 64

static pthread_barrier_t barrier;
static size_t size_bytes;
static uint64_t waits_ns[2][THREADS_MAX];

static void *ask_twice(void *argument)
{
	const size_t index = (size_t)(uintptr_t)argument;
	CUdeviceptr address;
	if (set_current(context))
		exit(3);
	pthread_barrier_wait(&barrier);
	for (int turn = 0; turn < 2; turn++) {
		const uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
		if (take(&address, size_bytes) == CUDA_SUCCESS)
			exit(4);
		waits_ns[turn][index] = now_ns(CLOCK_MONOTONIC) - from_ns;
	}
	return NULL;
}

static void print(const char *name, const uint64_t *numbers, size_t count)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < count; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)numbers[i]);
	printf("], ");
}

int main(int argc, char **argv)
{
	CUresult (*take_pooled)(CUdeviceptr *, size_t, CUstream);
	pthread_t threads[THREADS_MAX];
	CUdeviceptr address;
	const size_t count = argc == 3 ? (size_t)atoi(argv[1]) : 0;
	if (count < 1 || count > THREADS_MAX)
		return 2;
	size_bytes = (size_t)atol(argv[2]) << 20;
	find(load_driver(), "cuMemAllocAsync", &take_pooled);
	if (take_pooled(&address, 1 << 20, NULL))
		return 3;
	puts("ready");
	fflush(stdout);
	getchar();

	const uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
	pthread_barrier_init(&barrier, NULL, (unsigned int)count);
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, ask_twice, (void *)(uintptr_t)i))
			return 3;
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	putchar('{');
	print("first_ns", waits_ns[0], count);
	print("second_ns", waits_ns[1], count);
	printf("\"elapsed_ns\": %llu}\n", (unsigned long long)(now_ns(CLOCK_MONOTONIC) - from_ns));
	return 0;
}
