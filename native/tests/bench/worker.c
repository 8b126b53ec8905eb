/*
 * What the benchmarks run, with and without the library preloaded. Linked to no driver.
 *
 *   worker pairs THREADS LIVE BATCHES   ns per allocate-and-free pair, a line per batch
 *   worker launches THREADS BATCHES     ns per launch, a line per batch
 *   worker waits THREADS BATCHES        the same; each is waited for
 *   worker replace LIVE BATCHES         the same; each frees one of the live blocks at random
 *   worker hold                         takes one block, says "ready", stays until stdin ends
 *   worker first                        initialises, takes a block, gives it back
 *   worker heir MIB                     takes that much at once, is refused one unit more, gives it back
 *   worker churn FILE INDEX ROUNDS      takes and gives back; of FILE's numbers the INDEXth is its longest wait in ns, the 128th
 *                                       from there when the call at hand began (0: none is), the 256th how many were done; the
 *                                       511th counts whatever failed
 *   worker race FILE ROUNDS             takes what only one may have at a time; FILE counts who has it now,
 *                                       how often it was had, by more than one, and refused
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../loaded_driver.h"

#define PAIRS 2000
#define BLOCK_BYTES 65536u
#define SMALL_BYTES 512u

static CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			  unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

static void pairs_once(void)
{
	CUdeviceptr address;
	for (int i = 0; i < PAIRS; i++)
		if (take(&address, BLOCK_BYTES) || give(address))
			exit(4);
}

static void launches_once(void)
{
	for (int i = 0; i < PAIRS; i++)
		if (launch((CUfunction)(uintptr_t)0x3000, 132, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL))
			exit(4);
}

static CUresult (*synchronize)(void);

static void waits_once(void)
{
	for (int i = 0; i < PAIRS; i++)
		if (launch((CUfunction)(uintptr_t)0x3000, 132, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL) ||
		    synchronize())
			exit(4);
}

static void (*once)(void) = pairs_once;

static void *measure(void *argument)
{
	const int batches = *(const int *)argument;
	if (set_current(context))
		exit(3);
	once();
	for (int i = 0; i < batches; i++) {
		uint64_t from = now_ns(CLOCK_THREAD_CPUTIME_ID);
		once();
		printf("%.1f\n", (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - from) / PAIRS);
	}
	return NULL;
}

static void pairs(int thread_count, long live, int batches)
{
	CUdeviceptr address;
	pthread_t threads[64];
	for (long i = 0; i < live; i++)
		if (take(&address, SMALL_BYTES))
			exit(4);
	for (int i = 0; i < thread_count; i++)
		pthread_create(&threads[i], NULL, measure, &batches);
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
}

#define STEP 611953 /* a prime, so that a batch comes to no block twice */

/*
 * The addresses are read before the time is taken: a program has at hand what it frees, and that it has missed the cache
 * for it is no cost of the library.
 */
static void replace(long live, int batches)
{
	CUdeviceptr *addresses = malloc((size_t)live * sizeof *addresses), mine[PAIRS];
	long at = 0;
	for (long i = 0; i < live; i++)
		if (!addresses || take(&addresses[i], SMALL_BYTES))
			exit(4);
	for (int i = 0; i < batches; i++) {
		const long first = at;
		for (int j = 0; j < PAIRS; j++, at = (at + STEP) % live)
			mine[j] = addresses[at];
		uint64_t from = now_ns(CLOCK_THREAD_CPUTIME_ID);
		for (int j = 0; j < PAIRS; j++)
			if (give(mine[j]) || take(&mine[j], SMALL_BYTES))
				exit(4);
		printf("%.1f\n", (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - from) / PAIRS);
		at = first;
		for (int j = 0; j < PAIRS; j++, at = (at + STEP) % live)
			addresses[at] = mine[j];
	}
}

static void hold(void)
{
	CUdeviceptr address;
	if (take(&address, BLOCK_BYTES))
		exit(4);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static int heir(long mib)
{
	CUdeviceptr all, more;
	if (take(&all, (size_t)mib << 20))
		return 5;
	if (take(&more, SMALL_BYTES) != CUDA_ERROR_OUT_OF_MEMORY)
		return 6;
	return give(all) ? 4 : 0;
}

#define BEGUN 128
#define DONE 256
#define FAILED 511

static void churn(const char *file, long index, long rounds)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	uint64_t *numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (numbers == MAP_FAILED)
		exit(2);
	close(fd);
	for (long i = 0; i < rounds; i++) {
		CUdeviceptr address;
		uint64_t from = now_ns(CLOCK_MONOTONIC);
		/* A wait that does not end is seen by whoever kills us. */
		__atomic_store_n(&numbers[BEGUN + index], from, __ATOMIC_SEQ_CST);
		CUresult cr = take(&address, BLOCK_BYTES);
		if (cr == CUDA_SUCCESS)
			cr = give(address);
		uint64_t waited = now_ns(CLOCK_MONOTONIC) - from;
		if (waited > numbers[index])
			numbers[index] = waited;
		__atomic_store_n(&numbers[BEGUN + index], 0, __ATOMIC_SEQ_CST);
		numbers[DONE + index]++;
		if (cr != CUDA_SUCCESS)
			numbers[FAILED]++; /* refused, or not freed */
	}
}

#define RACE_BYTES (60u << 20)

static void race(const char *file, long rounds)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	uint64_t *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		exit(2);
	close(fd);
	for (long i = 0; i < rounds; i++) {
		CUdeviceptr address;
		const CUresult cr = take(&address, RACE_BYTES);
		if (cr != CUDA_SUCCESS && cr != CUDA_ERROR_OUT_OF_MEMORY)
			exit(4);
		__atomic_add_fetch(&counts[cr == CUDA_SUCCESS ? 1 : 3], 1, __ATOMIC_SEQ_CST);
		if (cr != CUDA_SUCCESS)
			continue;
		if (__atomic_add_fetch(&counts[0], 1, __ATOMIC_SEQ_CST) != 1)
			__atomic_add_fetch(&counts[2], 1, __ATOMIC_SEQ_CST);
		if (i % 4 == 0)
			sched_yield(); /* while it is held: let another try */
		__atomic_sub_fetch(&counts[0], 1, __ATOMIC_SEQ_CST);
		if (give(address))
			exit(4);
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	find(load_driver(), "cuLaunchKernel", &launch);
	if (strcmp(argv[1], "pairs") == 0 && argc == 5)
		pairs(atoi(argv[2]), atol(argv[3]), atoi(argv[4]));
	else if (strcmp(argv[1], "launches") == 0 && argc == 4) {
		once = launches_once;
		pairs(atoi(argv[2]), 0, atoi(argv[3]));
	} else if (strcmp(argv[1], "waits") == 0 && argc == 4) {
		find(load_driver(), "cuCtxSynchronize", &synchronize);
		once = waits_once;
		pairs(atoi(argv[2]), 0, atoi(argv[3]));
	} else if (strcmp(argv[1], "replace") == 0 && argc == 4)
		replace(atol(argv[2]), atoi(argv[3]));
	else if (strcmp(argv[1], "hold") == 0)
		hold();
	else if (strcmp(argv[1], "heir") == 0 && argc == 3)
		return heir(atol(argv[2]));
	else if (strcmp(argv[1], "churn") == 0 && argc == 5)
		churn(argv[2], atol(argv[3]), atol(argv[4]));
	else if (strcmp(argv[1], "race") == 0 && argc == 4)
		race(argv[2], atol(argv[3]));
	else if (strcmp(argv[1], "first") == 0) {
		CUdeviceptr address;
		if (take(&address, BLOCK_BYTES) || give(address))
			return 4;
	} else {
		return 2;
	}
	return 0;
}
