/*
 * Asks cuGetProcAddress_v2 for what stands on stdin, a line each: NAME VERSION FLAGS. Prints a line
 * each: whose function it got (hook, driver, nothing), the name that is exported under, the status.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda_api.h"

int main(void)
{
	CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *found = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
	if (!found)
		return 2;
	memcpy(&ask, &found, sizeof found);
	CUresult (*init)(unsigned int);
	found = dlsym(driver, "cuInit");
	memcpy(&init, &found, sizeof found);
	if (init(0) != CUDA_SUCCESS)
		return 3;
	char name[128];
	int version;
	unsigned int flags;
	while (scanf("%127s %d %u", name, &version, &flags) == 3) {
		Dl_info info = {0};
		CUdriverProcAddressQueryResult status = 77;
		void *function = NULL;
		CUresult cr = ask(name, &function, version, flags, &status);
		const char *whose = "nothing";
		if (function && dladdr(function, &info))
			whose = strstr(info.dli_fname, "libhamid") ? "hook" : "driver";
		printf("%s %s %d %d\n", whose, info.dli_sname ? info.dli_sname : "-", (int)cr,
		       (int)status);
	}
	return 0;
}
