/*
 * Who is found under a hooked name, by every way to look. Prints, a line a way, whether it is the
 * hook, the driver or nothing. Linked to lib_next.so, which stands after the preloaded library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda_api.h"

void *next_after_library(const char *symbol);

static void say(const char *way, void *found)
{
	Dl_info info;
	const char *where = "nothing";
	if (found && dladdr(found, &info))
		where = strstr(info.dli_fname, "libhamid") ? "hook" :
			strstr(info.dli_fname, "libcuda") ? "driver" : info.dli_fname;
	printf("%s: %s\n", way, where);
}

static void say_versions(const char *name, void *ask_address)
{
	CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	memcpy(&ask, &ask_address, sizeof ask_address);
	const int versions[] = {1000, 2000, 3020, 12000};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		char way[128];
		void *found = NULL;
		CUdriverProcAddressQueryResult status = 77;
		CUresult cr = ask(name, &found, versions[i], 0, &status);
		snprintf(way, sizeof way, "%s@%d result %d status %d", name, versions[i], (int)cr,
			 (int)status);
		say(way, found);
	}
}

int main(int argc, char **argv)
{
	const int scope = argc > 1 && strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | scope);
	void *self = dlopen(NULL, RTLD_NOW);
	say("handle", dlsym(driver, "cuMemAlloc_v2"));
	say("handle, first version", dlsym(driver, "cuMemAlloc"));
	say("handle, not hooked", dlsym(driver, "cuInit"));
	say("handle, unknown", dlsym(driver, "cuNoSuchThing"));
	say("program", dlsym(self, "cuMemAlloc_v2"));
	say("default", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	say("next of the program", dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
	say("next of a later library", next_after_library("cuMemAlloc_v2"));
	say("next of a later library, not hooked", next_after_library("cuInit"));
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	say("dlsym of libc", dlsym(libc, "dlsym"));

	void *ask = dlsym(driver, "cuGetProcAddress_v2");
	say_versions("cuMemAlloc", ask);
	say_versions("cuGetProcAddress", ask);
	say_versions("cuInit", ask);
	say_versions("cuNoSuchThing", ask);
	say_versions("", ask);
	return 0;
}
