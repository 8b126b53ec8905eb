/*
 * Allocates, frees and launches where every system call is the end. Says "done"; ends with 77 where calls cannot be
 * forbidden, or the clock is one.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../loaded_driver.h"

#define NOT_HERE 77
#define ROUNDS 2000
#define LAUNCHES 20

static CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			  unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

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
	int status;
	const pid_t child = fork();
	if (child == 0) {
		be_strict();
		now_ns(CLOCK_MONOTONIC);
		now_ns(CLOCK_MONOTONIC_COARSE);
		syscall(SYS_exit, 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		exit(NOT_HERE);
}

int main(void)
{
	look_at_clock();
	find(load_driver(), "cuLaunchKernel", &launch);
	if (work(ROUNDS)) /* what is made once is made */
		return 4;
	be_strict();
	const int result = work(ROUNDS);
	if (result == 0 && write(1, "done\n", 5) != 5)
		syscall(SYS_exit, 2);
	syscall(SYS_exit, result);
	return 0;
}
