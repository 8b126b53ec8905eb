/* usage_slots.c: whose a slot is, and until when: processes that end, become others, or leave clones behind. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "children.h"
#include "container.h"
#include "pages.h"
#include "test.h"

static int take_60_and_be_killed(void)
{
	uint32_t device;
	if (test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device) < 0)
		return 1;
	raise(SIGKILL);
	return 2;
}

/* The process lives on as another program, which says so and waits for its input to end. */
static void take_60_and_become_another(int input, int output)
{
	uint32_t device;
	if (test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device) < 0)
		_exit(1);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	execl("/bin/sh", "sh", "-c", "echo ready; read line; exit 0", NULL);
	_exit(2);
}

static void check_exec(void)
{
	int to_child[2], from_child[2];
	if (pipe2(to_child, O_CLOEXEC) < 0 || pipe2(from_child, O_CLOEXEC) < 0)
		exit(2);
	pid_t child = fork();
	if (child == 0)
		take_60_and_become_another(to_child[0], from_child[1]);
	char ready[8];
	EXPECT(read(from_child[0], ready, sizeof ready) > 0);
	EXPECT_EQUAL(kill(child, 0), 0);
	EXPECT_EQUAL(used_bytes(), 0);
	close(to_child[1]);
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQUAL(status, 0);
	close(to_child[0]);
	close(from_child[0]);
	close(from_child[1]);
}

static int close_all_and_take_40(void)
{
	uint32_t device;
	test_reserve(TEST_UUID, MIB, 200 * MIB, &device);
	pages_release(device, MIB);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	/* Another file takes the number; it must stay as it is. */
	int other = open("/dev/null", O_RDONLY);
	int r = -test_reserve("GPU-of-another-name", 40 * MIB, 100 * MIB, &device);
	return r ? r : fcntl(other, F_GETFD) < 0;
}

/* Holds 60 MiB with our descriptor closed, while a child of its own tries to have as much. */
static int close_all_and_hold_60(void)
{
	uint32_t device;
	if (test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device) < 0)
		return 1;
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	return in_child(take_60) == ENOMEM ? 0 : 2;
}

static int outlive[2]; /* whoever reads from it ends when it is closed */

/* Ends, but a process that was made past fork() lives on, with our descriptor and so with the slot's lock. */
static int take_60_and_leave_a_clone(void)
{
	char byte;
	if (take_60() != 0)
		return 1;
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
		close(outlive[1]);
		_exit(read(outlive[0], &byte, 1) != 0);
	}
	return 0;
}

int main(void)
{
	test_make_container();
	test_set_limit(100 * MIB);

	CHECK("what a child held is free when it is gone")
	{
		EXPECT_EQUAL(in_child(take_60), 0);
		EXPECT_EQUAL(in_child(take_60_and_be_killed), -1);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what a process held before it became another program is free")
	{
		check_exec();
	}

	CHECK("a program that closes descriptors that are not its own breaks nothing")
	{
		EXPECT_EQUAL(in_child(close_all_and_take_40), 0);
		EXPECT_EQUAL(in_child(close_all_and_hold_60), 0);
	}

	CHECK("a slot whose lock lives on in a clone of its owner keeps nobody else out")
	{
		EXPECT_EQUAL(pipe2(outlive, O_CLOEXEC), 0);
		EXPECT_EQUAL(in_child(take_60_and_leave_a_clone), 0);
		EXPECT_EQUAL(in_child(take_60), 0); /* which clears it */
		EXPECT_EQUAL(in_child(take_60), 0); /* and would be given it */
		close(outlive[0]);
		close(outlive[1]);
	}

	test_remove_container();
	return test_report();
}
