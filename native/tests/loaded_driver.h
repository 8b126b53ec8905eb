/*
 * For small programs that find the driver as most do, by dlopen, and take device memory of the first card.
 * Whatever fails ends them.
 */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_subset.h"

static CUresult (*set_current)(CUcontext);
static CUresult (*take)(CUdeviceptr *, size_t);
static CUresult (*give)(CUdeviceptr);
static CUcontext context; /* the card's primary one */

static inline void find(void *driver, const char *symbol, void *to)
{
	void *found = dlsym(driver, symbol);
	if (!found)
		exit(2);
	memcpy(to, &found, sizeof found);
}

/* Load it, and make its context current. */
static inline void *load_driver(void)
{
	CUresult (*init)(unsigned int);
	CUresult (*retain)(CUcontext *, CUdevice);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		exit(2);
	find(driver, "cuInit", &init);
	find(driver, "cuDevicePrimaryCtxRetain", &retain);
	find(driver, "cuCtxSetCurrent", &set_current);
	find(driver, "cuMemAlloc_v2", &take);
	find(driver, "cuMemFree_v2", &give);
	if (init(0) || retain(&context, 0) || set_current(context))
		exit(3);
	return driver;
}

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
