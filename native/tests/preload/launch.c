/*
 * A tenant that keeps a device busy, and says how much of it it got.
 *
 *   launch HOW KERNEL_NS MILLISECONDS [GRID [SLOT_MS [WARM_KERNELS]]]
 *   HOW: kernel, ex, coop, multi (of one device), grid (as before CUDA 4), each also with -ptsz where there is
 *   one; sync (waits for each), deep (for the eighth before), graph, graph-ptsz (ten kernels each), streams (four
 *   in turns), threads (a new one for each), late (after one without a context, which fails)
 *
 * One JSON line: GPU time of what was launched and done, what that took, the longest launch, when it
 * began, and the GPU time launched in each second (or SLOT_MS) since. "ready" before it begins, on a line that is read from
 * stdin; before that, so many kernels run that do not count.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_api.h"

#define MUST(call) \
	do { \
		const int result_ = (int)(call); \
		if (result_) { \
			fprintf(stderr, "%s: %d\n", #call, result_); \
			exit(3); \
		} \
	} while (0)

#define STREAMS 4
#define GRAPH_KERNELS 10
#define DEEP 8
#define SLOTS_MAX 6000

static CUcontext context;
static CUfunction function;
static CUstream streams[STREAMS];
static CUgraphExec graph;
static CUevent events[DEEP];
static unsigned int grid = 132;

/* The simulated driver's, for HAMID_SIM_CLOCK=virtual: then time passes only for who waits. */
extern bool hamid_sim_is_virtual(void) __attribute__((weak));
extern uint64_t hamid_sim_now_ns(void) __attribute__((weak));

static uint64_t now_ns(void)
{
	struct timespec now;
	if (hamid_sim_is_virtual && hamid_sim_is_virtual())
		return hamid_sim_now_ns();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The forms for per-thread default streams have the prototypes of the others. */
extern __typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
extern __typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
extern __typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
extern __typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;

static bool is(const char *how, const char *name)
{
	return strcmp(how, name) == 0;
}

static CUresult kernel(CUstream stream)
{
	return cuLaunchKernel(function, grid, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
}

static void make_graph(void)
{
	CUgraph recorded;
	MUST(cuStreamBeginCapture_v2(streams[0], 0));
	for (int i = 0; i < GRAPH_KERNELS; i++)
		MUST(kernel(streams[0]));
	MUST(cuStreamEndCapture(streams[0], &recorded));
	MUST(cuGraphInstantiateWithFlags(&graph, recorded, 0));
}

static void *launch_one(void *argument)
{
	(void)argument;
	MUST(cuCtxSetCurrent(context));
	MUST(kernel(NULL));
	return NULL;
}

static void launch_in_thread(void)
{
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, launch_one, NULL));
	MUST(pthread_join(thread, NULL));
}

static void launch_in_vain(void)
{
	MUST(cuCtxSetCurrent(NULL));
	if (kernel(NULL) == CUDA_SUCCESS)
		exit(3);
	MUST(cuCtxSetCurrent(context));
}

static void start(const char *kernel_ns)
{
	CUmodule module;
	char name[64];
	snprintf(name, sizeof name, "sim_%sns", kernel_ns);
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
	MUST(cuModuleGetFunction(&function, module, name));
	MUST(cuFuncSetBlockShape(function, 128, 1, 1));
	for (int i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&streams[i], 1));
	for (int i = 0; i < DEEP; i++)
		MUST(cuEventCreate(&events[i], 0));
}

/* How many kernels were launched. */
static unsigned int launch(const char *how, unsigned int turn)
{
	CUlaunchConfig config = {
		.gridDimX = grid, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 128, .blockDimY = 1, .blockDimZ = 1,
	};
	CUDA_LAUNCH_PARAMS several = {
		.function = function,
		.gridDimX = grid, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 128, .blockDimY = 1, .blockDimZ = 1,
		.hStream = streams[0],
	};
	if (is(how, "graph") || is(how, "graph-ptsz")) {
		MUST((is(how, "graph") ? cuGraphLaunch : cuGraphLaunch_ptsz)(graph, streams[0]));
		return GRAPH_KERNELS;
	}
	if (is(how, "ex") || is(how, "ex-ptsz"))
		MUST((is(how, "ex") ? cuLaunchKernelEx : cuLaunchKernelEx_ptsz)(&config, function, NULL, NULL));
	else if (is(how, "coop"))
		MUST(cuLaunchCooperativeKernel(function, grid, 1, 1, 128, 1, 1, 0, NULL, NULL));
	else if (is(how, "coop-ptsz"))
		MUST(cuLaunchCooperativeKernel_ptsz(function, grid, 1, 1, 128, 1, 1, 0, NULL, NULL));
	else if (is(how, "kernel-ptsz"))
		MUST(cuLaunchKernel_ptsz(function, grid, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
	else if (is(how, "multi"))
		MUST(cuLaunchCooperativeKernelMultiDevice(&several, 1, 0));
	else if (is(how, "threads"))
		launch_in_thread();
	else if (is(how, "grid"))
		MUST(turn % 3 == 0 ? cuLaunch(function) :
		     turn % 3 == 1 ? cuLaunchGrid(function, (int)grid, 1) :
				     cuLaunchGridAsync(function, (int)grid, 1, NULL));
	else
		MUST(kernel(is(how, "streams") ? streams[turn % STREAMS] : NULL));
	if (is(how, "deep")) {
		MUST(cuEventRecord(events[turn % DEEP], NULL));
		if (turn >= DEEP)
			MUST(cuEventSynchronize(events[(turn + 1) % DEEP]));
	}
	if (is(how, "sync"))
		MUST(cuCtxSynchronize());
	return 1;
}

int main(int argc, char **argv)
{
	static uint64_t slots[SLOTS_MAX + 1];
	if (argc < 4)
		return 2;
	const uint64_t kernel_ns = strtoull(argv[2], NULL, 10);
	const uint64_t length_ns = strtoull(argv[3], NULL, 10) * 1000000;
	if (argc > 4)
		grid = (unsigned int)atoi(argv[4]);
	const uint64_t slot_ns = argc > 5 ? strtoull(argv[5], NULL, 10) * 1000000 : 1000000000;
	start(argv[2]);
	if (strncmp(argv[1], "graph", 5) == 0)
		make_graph();
	for (unsigned int turn = 0; argc > 6 && turn < (unsigned int)atoi(argv[6]); turn++)
		launch(argv[1], turn);
	MUST(cuCtxSynchronize());
	puts("ready");
	fflush(stdout);
	getchar();
	if (is(argv[1], "late"))
		launch_in_vain();

	uint64_t done = 0, worst_ns = 0;
	const uint64_t from = now_ns();
	uint64_t before = from;
	for (unsigned int turn = 0; before - from < length_ns; turn++) {
		const unsigned int kernels = launch(argv[1], turn);
		const uint64_t now = now_ns();
		const uint64_t slot = (now - from) / slot_ns;
		worst_ns = now - before > worst_ns ? now - before : worst_ns;
		done += kernels;
		slots[slot < SLOTS_MAX ? slot : SLOTS_MAX] += kernels * kernel_ns;
		before = now;
	}
	MUST(cuCtxSynchronize());
	printf("{\"gpu_ns\": %llu, \"elapsed_ns\": %llu, \"worst_ns\": %llu, "
	       "\"from_ns\": %llu, \"seconds\": [",
	       (unsigned long long)(done * kernel_ns), (unsigned long long)(now_ns() - from),
	       (unsigned long long)worst_ns, (unsigned long long)from);
	for (uint64_t i = 0; i < (before - from) / slot_ns && i < SLOTS_MAX; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)slots[i]);
	puts("]}");
	return 0;
}
