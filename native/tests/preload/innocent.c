/*
 * A program that has nothing to do with GPUs. It prints what it finds of itself: with the library
 * preloaded or without, that has to be the same.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int count_entries(const char *path)
{
	int count = 0;
	DIR *dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static int count_handlers(void)
{
	int count = 0;
	for (int signal = 1; signal < NSIG; signal++) {
		struct sigaction action;
		if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			count++;
	}
	return count;
}

static int count_environment(void)
{
	int count = 0;
	for (char **at = environ; *at; at++)
		if (strncmp(*at, "LD_PRELOAD=", 11) != 0)
			count++;
	return count;
}

static void say(const char *what, long value)
{
	printf("%s %ld\n", what, value);
}

static bool is_error_text_right(const char *symbol)
{
	dlerror();
	bool is_absent = dlsym(RTLD_DEFAULT, symbol) == NULL;
	const char *text = dlerror();
	return is_absent && text && strstr(text, symbol);
}

int main(void)
{
	say("descriptors", count_entries("/proc/self/fd"));
	say("threads", count_entries("/proc/self/task"));
	say("handlers", count_handlers());
	say("environment", count_environment());
	mode_t mask = umask(0);
	say("umask", (long)mask);
	umask(mask);

	errno = 4711;
	void *first = dlsym(RTLD_NEXT, "malloc");
	void *second = dlsym(RTLD_NEXT, "malloc");
	say("malloc", first != NULL && first == second);
	say("malloc is libc's", first == dlsym(RTLD_DEFAULT, "malloc"));
	void *libm = dlopen("libm.so.6", RTLD_NOW);
	errno = 4711;
	say("cos", libm && dlsym(libm, "cos") != NULL);
	say("errno", errno);

	/* Names that begin as ours do, and our own: there is no driver here. */
	say("curl_easy_init", is_error_text_right("curl_easy_init"));
	say("cublasCreate_v2", is_error_text_right("cublasCreate_v2"));
	say("cuMemAlloc_v2", is_error_text_right("cuMemAlloc_v2"));
	say("cuGetProcAddress_v2", is_error_text_right("cuGetProcAddress_v2"));
	say("nvmlDeviceGetMemoryInfo", is_error_text_right("nvmlDeviceGetMemoryInfo"));
	void *self = dlopen(NULL, RTLD_NOW);
	say("cuMemFree_v2 of the program", dlsym(self, "cuMemFree_v2") == NULL);
	say("cuMemFree_v2 of libm", dlsym(libm, "cuMemFree_v2") == NULL);
	say("next cuMemFree_v2", dlsym(RTLD_NEXT, "cuMemFree_v2") == NULL);

	pid_t child = fork();
	if (child == 0)
		_exit(0);
	say("descriptors after all", count_entries("/proc/self/fd"));
	return 0;
}
