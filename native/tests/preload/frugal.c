/*
 * Allocates, frees and launches where every system call is the end. Says "done"; ends with 77 where calls cannot be
 * forbidden, or the clock is one.
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"

#define NOT_HERE 77
#define ROUNDS 2000
#define LAUNCHES 20

static CUresult (*take)(CUdeviceptr *, size_t);
static CUresult (*give)(CUdeviceptr);
static CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			  unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

static void find(void *driver, const char *symbol, void *to)
{
	void *found = dlsym(driver, symbol);
	if (!found)
		exit(2);
	memcpy(to, &found, sizeof found);
}

static void start(void)
{
	CUresult (*init)(unsigned int), (*retain)(CUcontext *, CUdevice), (*set_current)(CUcontext);
	CUcontext context;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		exit(2);
	find(driver, "cuInit", &init);
	find(driver, "cuDevicePrimaryCtxRetain", &retain);
	find(driver, "cuCtxSetCurrent", &set_current);
	find(driver, "cuMemAlloc_v2", &take);
	find(driver, "cuMemFree_v2", &give);
	find(driver, "cuLaunchKernel", &launch);
	if (init(0) || retain(&context, 0) || set_current(context))
		exit(3);
}

static int work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		CUdeviceptr address;
		if (take(&address, 65536) || give(address))
			return 4;
		for (int j = 0; j < LAUNCHES; j++)
			if (launch((CUfunction)0x3000, 132, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL))
				return 5;
	}
	return 0;
}

/* Nothing is allowed from here but to write and to end. Not seccomp's strict mode, which stops the clock as well. */
static void be_strict(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(NOT_HERE);
}

static void look_at_clock(void)
{
	struct timespec now;
	int status;
	const pid_t child = fork();
	if (child == 0) {
		be_strict();
		clock_gettime(CLOCK_MONOTONIC, &now);
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
		syscall(SYS_exit, 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		exit(NOT_HERE);
}

int main(void)
{
	look_at_clock();
	start();
	if (work(ROUNDS)) /* what is made once is made */
		return 4;
	be_strict();
	const int result = work(ROUNDS);
	if (result == 0 && write(1, "done\n", 5) != 5)
		syscall(SYS_exit, 2);
	syscall(SYS_exit, result);
	return 0;
}
