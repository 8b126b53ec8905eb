/*
 * A library that comes after the preloaded one in the search order, and looks beyond itself; and an
 * interposer, when it is preloaded itself: it counts and goes on to the next.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda_api.h"

void *next_after_library(const char *symbol);

SIM_EXPORT void *next_after_library(const char *symbol)
{
	return dlsym(RTLD_NEXT, symbol);
}

#ifdef INTERPOSE
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	CUresult (*next)(CUdeviceptr *, size_t);
	void *found = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	memcpy(&next, &found, sizeof found);
	fprintf(stderr, "interposed\n");
	return next(address, bytes);
}
#endif
