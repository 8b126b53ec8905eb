/*
 * A function for GNU make (loaded by the Makefile): $(run-in-place COMMAND) replaces make by the command.
 *
 * Why: make reports every failure as 2, and takes Ctrl-C as a failure of its own. `make run` promises the
 * exit codes of the simulation, and 0 at Ctrl-C. Nothing may be left to do when it is called.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* From gnumake.h, which systems often lack. */
typedef char *(*gmk_func_ptr)(const char *name, unsigned int argc, char **argv);
extern void gmk_add_function(const char *name, gmk_func_ptr func, unsigned int min_args, unsigned int max_args,
			     unsigned int flags);
#define GMK_FUNC_DEFAULT 0x00

int plugin_is_GPL_compatible; /* make asks for it; Apache-2.0 is compatible with make's GPLv3 */

static char *run_in_place(const char *name, unsigned int argc, char **argv)
{
	sigset_t none;

	(void)name;
	(void)argc;
	fflush(NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL); /* make may have signals blocked; they would stay so */
	execl("/bin/sh", "sh", "-c", argv[0], (char *)NULL);
	perror("run-in-place: /bin/sh");
	exit(127);
}

int run_in_place_gmk_setup(void);

int run_in_place_gmk_setup(void)
{
	gmk_add_function("run-in-place", run_in_place, 1, 1, GMK_FUNC_DEFAULT);
	return 1;
}
