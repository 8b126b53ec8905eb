/*
 * A library that opens another by its bare name, which is found by the RUNPATH of this library alone
 * ($ORIGIN/deep): so only who calls dlopen for it, and not in its stead, finds it.
 */
#include <dlfcn.h>

#include "cuda_api.h"

void *open_beside_me(int mode, int way);

SIM_EXPORT void *open_beside_me(int mode, int way)
{
	if (way == 1)
		return dlmopen(LM_ID_BASE, "lib_deep.so", mode);
	if (way == 2) {
		void *(*open)(const char *, int);
		*(void **)&open = dlsym(dlopen("libc.so.6", RTLD_NOW), "dlopen");
		return open("lib_deep.so", mode);
	}
	return dlopen("lib_deep.so", mode);
}
