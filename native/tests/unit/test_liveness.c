/* liveness.c: who is gone, and who only looks like it. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "liveness.h"
#include "test.h"

static pid_t start_child(void)
{
	pid_t child = fork();
	if (child == 0) {
		for (;;)
			pause();
	}
	return child;
}

int main(void)
{
	struct process_identity self = liveness_self();

	CHECK("this process lives")
	{
		EXPECT_EQUAL(self.pid, getpid());
		EXPECT(self.start_time_ticks > 0);
		EXPECT(self.pid_namespace > 0);
		EXPECT(!liveness_is_gone(&self));
	}

	CHECK("a pid that is another's by now is gone")
	{
		struct process_identity earlier = self;
		earlier.start_time_ticks--;
		EXPECT(liveness_is_gone(&earlier));
	}

	CHECK("a child lives until it is killed, and a zombie is gone")
	{
		pid_t child = start_child();
		struct process_identity identity = {.pid = (uint32_t)child};
		EXPECT(!liveness_is_gone(&identity));
		kill(child, SIGKILL);
		siginfo_t info;
		waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
		EXPECT(liveness_is_gone(&identity));
		waitpid(child, NULL, 0);
		EXPECT(liveness_is_gone(&identity));
	}

	CHECK("what a process has mapped is seen")
	{
		EXPECT(!liveness_lacks_mapping(self.pid, "test_liveness"));
		EXPECT(!liveness_lacks_mapping(self.pid, "[stack]"));
		EXPECT(liveness_lacks_mapping(self.pid, "no-such-file"));
		EXPECT(!liveness_lacks_mapping(INT32_MAX, "no-such-file"));
	}

	CHECK("a stopped process lives")
	{
		pid_t child = start_child();
		struct process_identity identity = {.pid = (uint32_t)child};
		kill(child, SIGSTOP);
		waitpid(child, NULL, WUNTRACED);
		EXPECT(!liveness_is_gone(&identity));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return test_report();
}
