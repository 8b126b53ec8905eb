/*
 * deep_binding WAY: open a library with RTLD_DEEPBIND by way of another (dlopen, dlmopen, the dlopen that dlsym finds),
 * and print whose dlsym it sees.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void *open_beside_me(int mode, int way);

int main(int argc, char **argv)
{
	const char *ways[] = {"dlopen", "dlmopen", "found"};
	for (int way = 0; argc > 1 && way < 3; way++) {
		if (strcmp(argv[1], ways[way]) != 0)
			continue;
		errno = 4711;
		void *deep = open_beside_me(RTLD_NOW | RTLD_DEEPBIND, way);
		const char *why = deep ? "" : dlerror();
		const char *(*sees)(void);
		*(void **)&sees = deep ? dlsym(deep, "deep_sees") : NULL;
		printf("%s %d\n", sees ? sees() : why, errno);
		return 0;
	}
	return 2;
}
