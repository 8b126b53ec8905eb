/*
 * Asks cuGetProcAddress for what stands on stdin, a line each: FORM NAME VERSION FLAGS. Form 1 is the one
 * of CUDA 11.3, 2 that of 12.0; name "-" is the empty one. Prints a line each: whose function it
 * got (hook, driver, nothing), the name that is exported under, result and status.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda_api.h"

#define UNTOUCHED 77

int main(void)
{
	CUresult (*ask_1)(const char *, void **, int, cuuint64_t);
	CUresult (*ask_2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*init)(unsigned int);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *found[] = {driver ? dlsym(driver, "cuGetProcAddress") : NULL,
			 driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL,
			 driver ? dlsym(driver, "cuInit") : NULL};
	if (!found[0] || !found[1] || !found[2])
		return 2;
	memcpy(&ask_1, &found[0], sizeof ask_1);
	memcpy(&ask_2, &found[1], sizeof ask_2);
	memcpy(&init, &found[2], sizeof init);
	if (init(0) != CUDA_SUCCESS)
		return 3;
	char name[128];
	int form, version;
	unsigned int flags;
	while (scanf("%d %127s %d %u", &form, name, &version, &flags) == 4) {
		Dl_info info = {0};
		CUdriverProcAddressQueryResult status = UNTOUCHED;
		void *function = NULL;
		const char *asked = strcmp(name, "-") == 0 ? "" : name;
		CUresult cr = form == 1 ? ask_1(asked, &function, version, flags) :
					  ask_2(asked, &function, version, flags, &status);
		const char *whose = "nothing";
		if (function && dladdr(function, &info))
			whose = strstr(info.dli_fname, "libhamid") ? "hook" : "driver";
		printf("%s %s %d %d\n", whose, info.dli_sname ? info.dli_sname : "-", (int)cr,
		       (int)status);
	}
	return 0;
}
