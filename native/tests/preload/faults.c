/*
 * What programs do to themselves and their driver, a JSON line for each call of note: its result, and what this
 * process is then charged and holds.
 *
 *   faults fork         a child that does not exec, of a process that uses the driver
 *   faults fork-first   two processes that fork before either uses it
 *   faults no-context   a thread that has no context
 *   faults destroyed    a context that is destroyed while threads use it
 *   faults reset        a device that is reset
 *   faults capture      a stream that is captured
 *   faults threads      threads that end without giving back
 *   faults exec         a process that becomes another program
 *   faults in-order     plain blocks, freed in the order of a stream that is busy
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "route.h"

#define MIB (1ull << 20)
#define THREADS 4

static void say(const char *what, CUresult cr)
{
	printf("{\"case\": \"%s\", \"result\": %d, \"charged\": %llu, \"physical\": %llu}\n", what,
	       (int)cr, (unsigned long long)charged_bytes(), (unsigned long long)physical_bytes());
	fflush(stdout);
}

static CUdeviceptr take(const char *what, uint64_t mib)
{
	CUdeviceptr address = 0;
	say(what, cuMemAlloc_v2(&address, mib * MIB));
	return address;
}

static void wait_for(pid_t child)
{
	int status = -1;
	waitpid(child, &status, 0);
	if (status)
		say("the child failed", (CUresult)status);
}

static void act_fork(void)
{
	route_start();
	const CUdeviceptr address = take("parent", 60);
	pid_t child = fork();
	if (child == 0) {
		size_t free_bytes, total;
		take("child", 30);
		say("child asks", cuMemGetInfo_v2(&free_bytes, &total));
		say("child frees its parent's", cuMemFree_v2(address));
		say("child starts anew", cuInit(0));
		exit(0); /* with all that ends with it */
	}
	wait_for(child);
	say("child gone", CUDA_SUCCESS);
	take("the rest", 40);
	take("more", 2);
	say("freed", cuMemFree_v2(address));
}

static void act_fork_first(void)
{
	int ready[2], leave[2];
	char byte = 0;
	if (pipe(ready) < 0 || pipe(leave) < 0)
		exit(2);
	pid_t child = fork();
	if (child == 0) {
		close(leave[1]);
		route_start();
		take("child", 60);
		if (write(ready[1], &byte, 1) != 1 || read(leave[0], &byte, 1) != 0)
			exit(2);
		exit(0);
	}
	if (read(ready[0], &byte, 1) != 1)
		exit(2);
	route_start();
	take("parent, as much", 60);
	take("parent, the rest", 40);
	close(leave[1]);
	wait_for(child);
	take("child gone", 60);
}

static void *without_context(void *argument)
{
	size_t free_bytes, total;
	CUdeviceptr address = 0;
	CUarray array;
	const CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 64, .Format = 0x20, .NumChannels = 1};
	take("taken", 2);
	say("in order of a stream", cuMemAllocAsync(&address, 2 * MIB, NULL));
	say("managed", cuMemAllocManaged(&address, 2 * MIB, 1));
	say("an array", cuArrayCreate_v2(&array, &shape));
	say("asked", cuMemGetInfo_v2(&free_bytes, &total));
	say("launched", cuLaunchKernel(argument, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	say("waited", cuCtxSynchronize());
	say("limited", cuCtxSetLimit(2, 64 * MIB));
	say("freed nothing", cuMemFree_v2(0));
	return NULL;
}

static void in_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;
	pthread_create(&thread, NULL, body, argument);
	pthread_join(thread, NULL);
}

static CUfunction function_named(const char *name)
{
	CUmodule module;
	CUfunction function = NULL;
	cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n");
	cuModuleGetFunction(&function, module, name);
	return function;
}

static CUfunction some_function(void)
{
	return function_named("sim_1000ns");
}

static void act_no_context(void)
{
	route_start();
	in_thread(without_context, some_function());
	const CUdeviceptr address = take("with one, all of it", 90);
	say("freed", cuMemFree_v2(address));
}

static void *destroy(void *context)
{
	say("destroyed by another thread", cuCtxDestroy_v2(context));
	return NULL;
}

static void act_destroyed(void)
{
	CUcontext primary, context;
	route_start();
	cuCtxGetCurrent(&primary);
	cuCtxCreate_v2(&context, 0, 0);
	const CUdeviceptr address = take("in a context", 60);
	in_thread(destroy, context);
	take("in what is gone", 2);
	say("freed in what is gone", cuMemFree_v2(address));
	say("destroyed twice", cuCtxDestroy_v2(context));
	say("the other made current", cuCtxSetCurrent(primary));
	say("freed after all", cuMemFree_v2(address));
	take("all of it", 100);
}

static void act_reset(void)
{
	struct taken array = {.bytes = 20 * MIB}, handle = {.bytes = 32 * MIB};
	CUcontext context;
	route_start();
	const CUdeviceptr address = take("plain", 30);
	route_named("array")->take(array.bytes, &array);
	route_named("handle")->take(handle.bytes, &handle);
	say("array and handle", CUDA_SUCCESS);
	say("reset", cuDevicePrimaryCtxReset_v2(0));
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	say("freed after all", cuMemFree_v2(address));
	say("the handle, which is no context's", route_named("handle")->give(&handle));
	take("all of it", 100);
	take("more", 2);
}

static void act_capture(void)
{
	CUstream stream, other;
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	CUdeviceptr inside = 0;
	route_start();
	CUfunction function = some_function();
	cuStreamCreate(&stream, 1);
	cuStreamCreate(&other, 1);
	say("begun", cuStreamBeginCapture_v2(stream, 0));
	say("launched in it", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	say("launched beside it", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
	say("taken in it", cuMemAllocAsync(&inside, 32 * MIB, stream));
	say("given back in it", cuMemFreeAsync(inside, stream));
	take("plain beside it", 2);
	say("ended", cuStreamEndCapture(stream, &graph));
	say("made executable", cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 200; i++) {
		CUresult cr = cuGraphLaunch(exec, stream);
		if (cr != CUDA_SUCCESS)
			say("a launch failed", cr);
	}
	say("waited", cuStreamSynchronize(stream));
	say("destroyed", cuGraphExecDestroy(exec));
	say("trimmed", cuDeviceGraphMemTrim(0));
}

static void free_behind_work(const char *what, CUdeviceptr address, CUstream stream)
{
	cuLaunchKernel(function_named("sim_50000000ns"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	say(what, cuMemFreeAsync(address, stream));
}

static void act_in_order(void)
{
	CUcontext primary, context;
	CUstream stream, other;
	char byte;
	route_start();
	cuStreamCreate(&stream, 1);
	const CUdeviceptr small = take("a little", 2);
	CUdeviceptr address = take("plain", 60);
	free_behind_work("freed behind work", address, stream);
	take("too early", 60);
	say("waited", cuStreamSynchronize(stream));
	address = take("again", 60);
	free_behind_work("freed again", address, stream);
	cuMemcpyDtoH_v2(&byte, small, 1);
	address = take("all but a little", 98);
	say("freed behind nothing", cuMemFreeAsync(address, stream));
	cuCtxGetCurrent(&primary);
	cuCtxCreate_v2(&context, 0, 0);
	cuStreamCreate(&other, 1);
	address = take("in a context", 60);
	free_behind_work("freed in it", address, other);
	say("destroyed", cuCtxDestroy_v2(context));
	cuCtxSetCurrent(primary);
	take("all but a little again", 98);
}

static void *take_and_end(void *argument)
{
	CUcontext context = NULL;
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	cuMemAlloc_v2(argument, 20 * MIB);
	return NULL;
}

static void act_threads(void)
{
	CUdeviceptr addresses[THREADS] = {0};
	pthread_t threads[THREADS];
	route_start();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_and_end, &addresses[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	say("ended", CUDA_SUCCESS);
	for (int i = 0; i < THREADS; i++)
		cuMemFree_v2(addresses[i]);
	say("freed by another", CUDA_SUCCESS);
}

static void act_exec(char **argv)
{
	if (strcmp(argv[1], "exec") == 0) {
		char *const again[] = {argv[0], "execed", NULL};
		route_start();
		take("before", 60);
		execv("/proc/self/exe", again);
		exit(2);
	}
	route_start();
	take("after, all of it", 100);
	take("more", 2);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*act)(void);
	} acts[] = {
		{"fork", act_fork},
		{"fork-first", act_fork_first},
		{"no-context", act_no_context},
		{"destroyed", act_destroyed},
		{"reset", act_reset},
		{"capture", act_capture},
		{"in-order", act_in_order},
		{"threads", act_threads},
	};
	if (argc != 2)
		return 2;
	if (strncmp(argv[1], "exec", 4) == 0) {
		act_exec(argv);
		return 0;
	}
	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
		if (strcmp(acts[i].name, argv[1]) == 0) {
			acts[i].act();
			return 0;
		}
	return 2;
}
