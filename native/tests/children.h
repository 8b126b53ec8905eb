/* For tests of the usage page: children that take of it. */
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "container.h"
#include "pages.h"
#include "test.h"

#define MIB (1ull << 20)

static inline uint64_t used_bytes(void)
{
	uint64_t used = 12345;
	EXPECT_EQUAL(pages_used(TEST_UUID, &used), 0);
	return used;
}

/* Run `body` in a child that is gone, not just ended, when this returns; its answer. */
static inline int in_child(int (*body)(void))
{
	pid_t child = fork();
	if (child == 0)
		_exit(body());
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int take_60(void)
{
	uint32_t device;
	return -test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device);
}
