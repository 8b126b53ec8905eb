/*
 * A tenant that keeps a device busy, and says how much of it it got.
 *
 *   launch HOW KERNEL_NS MILLISECONDS [GRID [SLOT_MS [WARM_KERNELS]]]
 *   KERNEL_NS: of each, whatever its grid; with a w behind it, of each wave of blocks that the device holds; with an h, of one
 *   in 200, hidden among others of the same function and grid that take 5 us
 *   HOW: kernel, ex, coop, multi (of one device), both (of two), grid (as before CUDA 4), each also with -ptsz where there is
 *   one; sync (waits for each), deep (for the eighth before), graph, graph-ptsz (ten kernels each, of long ones
 *   fewer), grids (three sizes in turns), streams (four in turns), threads (a new one for each), late (after one without a context, which fails); fill, fill-ptsz, fill-now,
 *   rows, copy, copy-now, any, any-ptsz, any-now (whose name does not say where it goes), plane, plane-now, unaligned, cuboid,
 *   cuboid-now, arrays, to-array, from-array, batch, batch-old: no kernels, HAMID_SIM_FILL_NS has to say what each takes; in, out:
 *   from and to the host, which takes the device no time
 *
 * One JSON line: GPU time of what was launched and done, what that took, the longest launch, the longest without the
 * time for which it was ready to go on and no CPU was free, when it began, this process's CPU time, and for how long it was so
 * ready; when the first mark (marks.h) was reached since, its GPU time, when the last was; and the GPU
 * time done in each second (or SLOT_MS) since. "ready" before it begins, on a line that is read from stdin; before that, so many
 * kernels run that do not count.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "marks.h"

#define STREAMS 4
#define GRAPH_KERNELS 10
#define GRAPH_NS 100000000ull /* no more than that of long kernels, but two */
#define PER_THREAD ((CUstream)2)
#define MULTIPROCESSORS 16 /* an attribute */
#define DEEP 8
#define HALF_BYTES 4096
#define HIDDEN_EVERY 200
#define BESIDE_NS 5000
#define LONG_NS 500000 /* a launch that has slept, or would have liked to run */

static CUcontext context;
static CUfunction function, other_function; /* the other is of the second device */
static CUstream streams[STREAMS], other_stream;
static CUgraphExec graph;
static CUevent events[DEEP];
static const unsigned int grids[] = {132, 4096, 65536};
static unsigned int grid = 132;
static unsigned int graph_kernels;
static uint64_t kernel_ns;      /* or of a wave */
static bool is_hidden;
static uint64_t told_ns; /* what this one takes, where it is */
static uint64_t blocks_at_once; /* 0: a kernel takes as long whatever its grid */

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

static uint64_t cpu_ns(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

/* For how long this thread was ready to run, and no CPU was free; 0 where the kernel does not tell. */
static uint64_t without_cpu_ns(void)
{
	static int told = -2;
	char text[96];
	unsigned long long ran, waited;
	if (told == -2)
		told = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	const ssize_t length = pread(told, text, sizeof text - 1, 0);
	if (length <= 0)
		return 0;
	text[length] = 0;
	return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

/* The forms for per-thread default streams have the prototypes of the others. */
extern __typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
extern __typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
extern __typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
extern __typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;
extern __typeof__(cuMemsetD32Async) cuMemsetD32Async_ptsz;
extern __typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;

static bool is(const char *how, const char *name)
{
	return strcmp(how, name) == 0;
}

/* GPU time of a launch. */
static uint64_t takes_ns(void)
{
	if (is_hidden)
		return told_ns;
	return blocks_at_once ? kernel_ns * ((grid + blocks_at_once - 1) / blocks_at_once) : kernel_ns;
}

static CUresult kernel(CUstream stream)
{
	void *params[] = {&told_ns};
	return cuLaunchKernel(function, grid, 1, 1, 128, 1, 1, 0, stream, params, NULL);
}

static void make_graph(void)
{
	CUgraph recorded;
	const uint64_t fit = GRAPH_NS / (takes_ns() + 1);
	graph_kernels = fit < 2 ? 2 : fit < GRAPH_KERNELS ? (unsigned int)fit : GRAPH_KERNELS;
	MUST(cuStreamBeginCapture_v2(streams[0], 0));
	for (unsigned int i = 0; i < graph_kernels; i++)
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

static void start(const char *length)
{
	CUmodule module;
	char *end, name[64];
	int blocks, multiprocessors;
	kernel_ns = strtoull(length, &end, 10);
	is_hidden = *end == 'h';
	snprintf(name, sizeof name, is_hidden ? "sim_told" : "sim_%lluns%s", (unsigned long long)kernel_ns,
		 *end ? "_wave" : "");
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
	MUST(cuModuleGetFunction(&function, module, name));
	MUST(cuFuncSetBlockShape(function, 128, 1, 1));
	if (*end && !is_hidden) {
		MUST(cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, 0));
		MUST(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0));
		blocks_at_once = (uint64_t)blocks * (uint64_t)multiprocessors;
	}
	for (int i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&streams[i], 1));
	for (int i = 0; i < DEEP; i++)
		MUST(cuEventCreate(&events[i], 0));
}

static void start_other(const char *length)
{
	CUcontext other;
	CUmodule module;
	char name[64];
	snprintf(name, sizeof name, "sim_%sns", length);
	MUST(cuDevicePrimaryCtxRetain(&other, 1));
	MUST(cuCtxPushCurrent_v2(other));
	MUST(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
	MUST(cuModuleGetFunction(&other_function, module, name));
	MUST(cuStreamCreate(&other_stream, 1));
	MUST(cuCtxPopCurrent_v2(&other));
}

static CUdeviceptr room(void)
{
	static CUdeviceptr taken;
	if (!taken)
		MUST(cuMemAlloc_v2(&taken, 2 * HALF_BYTES));
	return taken;
}

static CUarray array(int which)
{
	static CUarray arrays[2];
	const CUDA_ARRAY_DESCRIPTOR shape = {.Width = HALF_BYTES, .Format = 1, .NumChannels = 1};
	if (!arrays[which])
		MUST(cuArrayCreate_v2(&arrays[which], &shape));
	return arrays[which];
}

static CUDA_MEMCPY2D plane(void)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = room(), .srcPitch = 512,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = room() + HALF_BYTES, .dstPitch = 512,
		.WidthInBytes = 256, .Height = HALF_BYTES / 512,
	};
}

static CUDA_MEMCPY3D cuboid(void)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = room(), .srcPitch = 512, .srcHeight = 2,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = room() + HALF_BYTES, .dstPitch = 512,
		.dstHeight = 2, .WidthInBytes = 256, .Height = 2, .Depth = HALF_BYTES / 1024,
	};
}

static void copy_batch(bool is_old)
{
	static char on_host[64];
	CUdeviceptr to[] = {room(), room() + HALF_BYTES}, from[] = {(uintptr_t)on_host, room()};
	size_t sizes[] = {sizeof on_host, HALF_BYTES}, first = 0, failed;
	if (is_old)
		MUST(cuMemcpyBatchAsync(to, from, sizes, 2, NULL, &first, 0, &failed, streams[0]));
	else
		MUST(cuMemcpyBatchAsync_v2(to, from, sizes, 2, NULL, &first, 0, streams[0]));
}

/* A copy whose name does not say where it goes. False: it is none of these. */
static bool copy_somewhere(const char *how)
{
	static char on_host[HALF_BYTES];
	const CUDA_MEMCPY2D rows = plane();
	const CUDA_MEMCPY3D cells = cuboid();
	if (is(how, "any"))
		MUST(cuMemcpyAsync(room(), room() + HALF_BYTES, HALF_BYTES, streams[0]));
	else if (is(how, "any-ptsz"))
		MUST(cuMemcpyAsync_ptsz(room(), room() + HALF_BYTES, HALF_BYTES, NULL));
	else if (is(how, "any-now"))
		MUST(cuMemcpy(room(), room() + HALF_BYTES, HALF_BYTES));
	else if (is(how, "in"))
		MUST(cuMemcpyAsync(room(), (uintptr_t)on_host, HALF_BYTES, streams[0]));
	else if (is(how, "out"))
		MUST(cuMemcpy((uintptr_t)on_host, room(), HALF_BYTES));
	else if (is(how, "plane"))
		MUST(cuMemcpy2DAsync_v2(&rows, streams[0]));
	else if (is(how, "plane-now"))
		MUST(cuMemcpy2D_v2(&rows));
	else if (is(how, "unaligned"))
		MUST(cuMemcpy2DUnaligned_v2(&rows));
	else if (is(how, "cuboid"))
		MUST(cuMemcpy3DAsync_v2(&cells, streams[0]));
	else if (is(how, "cuboid-now"))
		MUST(cuMemcpy3D_v2(&cells));
	else if (is(how, "arrays"))
		MUST(cuMemcpyAtoA_v2(array(0), 0, array(1), 0, HALF_BYTES));
	else if (is(how, "to-array"))
		MUST(cuMemcpyDtoA_v2(array(0), 0, room(), HALF_BYTES));
	else if (is(how, "from-array"))
		MUST(cuMemcpyAtoD_v2(room(), array(0), 0, HALF_BYTES));
	else if (is(how, "batch") || is(how, "batch-old"))
		copy_batch(is(how, "batch-old"));
	else
		return false;
	return true;
}

/* Work that is no kernel. False: it is none of these. */
static bool fill_or_copy(const char *how)
{
	if (is(how, "fill"))
		MUST(cuMemsetD8Async(room(), 1, HALF_BYTES, streams[0]));
	else if (is(how, "fill-ptsz"))
		MUST(cuMemsetD32Async_ptsz(room(), 1, HALF_BYTES / 4, NULL));
	else if (is(how, "fill-now"))
		MUST(cuMemsetD16_v2(room(), 1, HALF_BYTES / 2));
	else if (is(how, "rows"))
		MUST(cuMemsetD2D8Async(room(), 512, 1, 256, HALF_BYTES / 512, NULL));
	else if (is(how, "copy"))
		MUST(cuMemcpyDtoDAsync_v2(room(), room() + HALF_BYTES, HALF_BYTES, streams[0]));
	else if (is(how, "copy-now"))
		MUST(cuMemcpyDtoD_v2(room(), room() + HALF_BYTES, HALF_BYTES));
	else
		return copy_somewhere(how);
	return true;
}

/* Where the launch of a turn was. */
static CUstream stream_of(const char *how, unsigned int turn)
{
	const size_t length = strlen(how);
	if (is(how, "streams"))
		return streams[turn % STREAMS];
	static const char *const there[] = {"multi", "both", "fill", "copy", "any", "in", "plane", "cuboid", "batch", "batch-old"};
	if (strncmp(how, "graph", 5) == 0)
		return streams[0];
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		if (is(how, there[i]))
			return streams[0];
	return length > 5 && is(how + length - 5, "-ptsz") ? PER_THREAD : NULL;
}

/* GPU time of what was launched. */
static uint64_t launch(const char *how, unsigned int turn)
{
	told_ns = turn % HIDDEN_EVERY == HIDDEN_EVERY - 1 ? kernel_ns : BESIDE_NS;
	if (is(how, "grids"))
		grid = grids[turn % (sizeof grids / sizeof *grids)];
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
	CUDA_LAUNCH_PARAMS both[] = {several, several};
	both[1].function = other_function;
	both[1].hStream = other_stream;
	if (fill_or_copy(how))
		return kernel_ns;
	if (is(how, "graph") || is(how, "graph-ptsz")) {
		MUST((is(how, "graph") ? cuGraphLaunch : cuGraphLaunch_ptsz)(graph, streams[0]));
		return graph_kernels * takes_ns();
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
	else if (is(how, "both"))
		MUST(cuLaunchCooperativeKernelMultiDevice(both, 2, 0));
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
	return takes_ns();
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	const uint64_t length_ns = strtoull(argv[3], NULL, 10) * 1000000;
	if (argc > 4)
		grid = (unsigned int)atoi(argv[4]);
	if (argc > 5)
		slot_ns = strtoull(argv[5], NULL, 10) * 1000000;
	start(argv[2]);
	if (strncmp(argv[1], "graph", 5) == 0)
		make_graph();
	if (is(argv[1], "both"))
		start_other(argv[2]);
	for (unsigned int turn = 0; argc > 6 && turn < (unsigned int)atoi(argv[6]); turn++)
		launch(argv[1], turn);
	MUST(cuCtxSynchronize());
	now_ns(); /* from here on a shared clock waits for us */
	puts("ready");
	fflush(stdout);
	getchar();
	if (is(argv[1], "late"))
		launch_in_vain();

	uint64_t done_ns = 0, worst_ns = 0, worst_own_ns = 0;
	marks_begin();
	const uint64_t from = now_ns(), cpu_from = cpu_ns();
	const uint64_t cpu_waited_from = without_cpu_ns();
	uint64_t before = from, cpu_waited_ns = cpu_waited_from;
	CUstream last = NULL;
	for (unsigned int turn = 0; before - from < length_ns; turn++) {
		const uint64_t gpu_ns = launch(argv[1], turn);
		const uint64_t now = now_ns();
		uint64_t own_ns = now - before;
		worst_ns = own_ns > worst_ns ? own_ns : worst_ns;
		if (own_ns > LONG_NS) {
			const uint64_t waited_ns = without_cpu_ns();
			own_ns -= waited_ns - cpu_waited_ns < own_ns ? waited_ns - cpu_waited_ns : own_ns;
			cpu_waited_ns = waited_ns;
		}
		worst_own_ns = own_ns > worst_own_ns ? own_ns : worst_own_ns;
		done_ns += gpu_ns;
		before = now;
		last = stream_of(argv[1], turn);
		marks_note(gpu_ns, last);
	}
	marks_end(last);
	printf("{\"gpu_ns\": %llu, \"elapsed_ns\": %llu, \"worst_ns\": %llu, "
	       "\"worst_own_ns\": %llu, \"from_ns\": %llu, \"cpu_ns\": %llu, ",
	       (unsigned long long)done_ns, (unsigned long long)(now_ns() - from),
	       (unsigned long long)worst_ns, (unsigned long long)worst_own_ns, (unsigned long long)from,
	       (unsigned long long)(cpu_ns() - cpu_from));
	printf("\"without_cpu_ns\": %llu, ", (unsigned long long)(without_cpu_ns() - cpu_waited_from));
	printf("\"first_end_ns\": %llu, \"first_gpu_ns\": %llu, \"last_end_ns\": %llu, \"seconds\": [",
	       (unsigned long long)first_end_ns, (unsigned long long)first_gpu_ns,
	       (unsigned long long)last_end_ns);
	for (uint64_t i = 0; i < (before - from) / slot_ns && i < SLOTS_MAX; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)slots[i]);
	puts("]}");
	return 0;
}
