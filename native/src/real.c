#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct real_driver real;

/* Without this the compiler knows better than the loader whether it is there. */
#pragma weak dlvsym

static _Atomic bool is_published[REAL_LIBRARIES];
static _Atomic(real_dlsym_fn) found_dlsym;

static const char *const sonames[REAL_LIBRARIES] = {
	[REAL_CUDA] = "libcuda.so.1",
	[REAL_NVML] = "libnvidia-ml.so.1",
};

static const struct {
	enum real_library library;
	const char *symbol;
	size_t offset;
} rows[] = {
#define REAL(library, result, symbol, params) \
	{REAL_##library, #symbol, offsetof(struct real_driver, symbol)},
#define HOOK(library, result, symbol, class, name, version, stream, params) \
	REAL(library, result, symbol, params)
#include "hooks.def"
#include "real.def"
#undef REAL
#undef HOOK
};

/* The baseline versions of the architectures we build for, and where glibc 2.34 moved it. */
static const char *const dlsym_versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

BEFORE_SANITIZERS real_dlsym_fn real_dlsym(void)
{
	real_dlsym_fn found = atomic_load_explicit(&found_dlsym, memory_order_acquire);
	if (found)
		return found;
	if (!dlvsym) /* see glibc_base.h: a program that can load nothing */
		return NULL;
	for (size_t i = 0; i < sizeof dlsym_versions / sizeof *dlsym_versions && !found; i++)
		found = (real_dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", dlsym_versions[i]);
	if (found)
		atomic_store_explicit(&found_dlsym, found, memory_order_release);
	return found;
}

bool real_load(enum real_library library)
{
	if (atomic_load_explicit(&is_published[library], memory_order_acquire))
		return true;

	int saved_errno = errno;
	real_dlsym_fn lookup = real_dlsym();
	if (!lookup) {
		errno = saved_errno;
		return false;
	}
	void *(*load)(const char *, int) = NULL; /* ours is called like it */
	void *found = lookup(RTLD_NEXT, "dlopen");
	memcpy(&load, &found, sizeof load);
	/* The reference is kept: the addresses must stay good for the life of the process. */
	void *handle = load ? load(sonames[library], RTLD_LAZY | RTLD_NOLOAD) : NULL;
	/* Threads that meet here write the same: none waits for another, which may be gone after a fork. */
	for (size_t i = 0; handle && i < sizeof rows / sizeof *rows; i++)
		if (rows[i].library == library)
			__atomic_store_n((void **)((char *)&real + rows[i].offset),
					 lookup(handle, rows[i].symbol), __ATOMIC_RELAXED);
	if (handle)
		atomic_store_explicit(&is_published[library], true, memory_order_release);
	dlerror(); /* a name that the driver lacks is no news to the program */
	errno = saved_errno;
	return handle != NULL;
}
