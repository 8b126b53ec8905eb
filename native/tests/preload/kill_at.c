/*
 * SIGKILL after the first instruction of a call, after the second, and so on: what does it do to others?
 *
 *   kill_at granted STRIDE   a child that takes 60 of 100 MiB, and gives it back
 *   kill_at refused STRIDE   a child that takes 60 MiB where 60 are taken already
 *   kill_at first STRIDE     as granted; it is the child's first call, with which it joins
 *   kill_at offered STRIDE   as granted; in between it lets others open that
 *   kill_at opened STRIDE    a child that opens 60 MiB of nobody's, and closes them
 *
 * The child is led through the call step by step, by ptrace, and killed after STRIDE instructions more each time, until it
 * gets through. Each time this process then takes all that is left, at once and to the last byte, and asks for one unit more. One
 * JSON line: how many instructions, how often this process was refused, how often it got more than there is, how long
 * it had to wait at most. Ends with 77 where nobody may be traced.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../loaded_driver.h"

#define MIB (1ull << 20)
#define UNIT_BYTES 512 /* in which memory is counted */
#define NOT_HERE 77

static CUresult (*get_handle)(CUipcMemHandle *, CUdeviceptr);
static CUresult (*open_handle)(CUdeviceptr *, CUipcMemHandle, unsigned int);
static CUresult (*close_handle)(CUdeviceptr);

static void act(const char *call)
{
	CUdeviceptr address;
	CUipcMemHandle handle = {"of nobody"};
	if (strcmp(call, "opened") == 0) {
		if (open_handle(&address, handle, 0) == CUDA_SUCCESS)
			close_handle(address);
	} else if (take(&address, 60 * MIB) == CUDA_SUCCESS) {
		if (strcmp(call, "offered") == 0)
			get_handle(&handle, address);
		give(address);
	}
}

static void be_led(const char *call)
{
	const bool is_first = strcmp(call, "first") == 0;
	CUdeviceptr address;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(NOT_HERE);
	if (!is_first && take(&address, MIB) == CUDA_SUCCESS)
		give(address);
	raise(SIGSTOP);
	act(call);
	_exit(0);
}

/* Has the child got through before this many instructions? It is gone afterwards. */
static bool kill_after(pid_t child, long instructions)
{
	int status;
	waitpid(child, &status, 0);
	if (!WIFSTOPPED(status))
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
	for (long i = 0; i < instructions; i++) {
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0)
			exit(NOT_HERE);
		waitpid(child, &status, 0);
		if (WIFEXITED(status))
			return true;
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return false;
}

int main(int argc, char **argv)
{
	CUdeviceptr kept = 0, address, more;
	long refused = 0, over = 0, killed = 0, instructions = 0;
	uint64_t longest_ns = 0;
	if (argc != 3)
		return 2;
	const bool is_refused = strcmp(argv[1], "refused") == 0;
	const long stride = atol(argv[2]);
	void *driver = load_driver();
	find(driver, "cuIpcGetMemHandle", &get_handle);
	find(driver, "cuIpcOpenMemHandle_v2", &open_handle);
	find(driver, "cuIpcCloseMemHandle", &close_handle);
	if (take(&address, MIB) || give(address))
		return 3;
	if (is_refused && take(&kept, 60 * MIB))
		return 3;
	for (bool is_through = false; !is_through; instructions += stride, killed++) {
		pid_t child = fork();
		if (child == 0)
			be_led(argv[1]);
		is_through = kill_after(child, instructions);
		const uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
		const CUresult cr = take(&address, (is_refused ? 40 : 100) * MIB);
		const uint64_t waited_ns = now_ns(CLOCK_MONOTONIC) - from_ns;
		longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
		if (cr != CUDA_SUCCESS) {
			refused++;
			continue;
		}
		if (take(&more, UNIT_BYTES) == CUDA_SUCCESS) {
			over++;
			give(more);
		}
		give(address);
	}
	printf("{\"instructions\": %ld, \"killed\": %ld, \"refused\": %ld, \"over\": %ld, \"longest_ns\": %llu}\n",
	       instructions, killed - 1, refused, over, (unsigned long long)longest_ns);
	return 0;
}
