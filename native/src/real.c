#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct real_driver real;

enum { NOT_LOADED, PUBLISHING, LOADED };

/* Without this the compiler knows better than the loader whether it is there. */
#pragma weak dlvsym

static _Atomic int state[REAL_LIBRARIES];
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

real_dlsym_fn real_dlsym(void)
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

static void publish(enum real_library library, const struct real_driver *looked_up)
{
	int expected = NOT_LOADED;
	if (!atomic_compare_exchange_strong(&state[library], &expected, PUBLISHING)) {
		/* Another thread copies a few pointers at this moment. */
		while (atomic_load_explicit(&state[library], memory_order_acquire) != LOADED)
			sched_yield();
		return;
	}
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].library == library)
			memcpy((char *)&real + rows[i].offset,
			       (const char *)looked_up + rows[i].offset, sizeof(void *));
	atomic_store_explicit(&state[library], LOADED, memory_order_release);
}

bool real_load(enum real_library library)
{
	if (atomic_load_explicit(&state[library], memory_order_acquire) == LOADED)
		return true;

	int saved_errno = errno;
	real_dlsym_fn lookup = real_dlsym();
	/* The reference is kept: the addresses must stay good for the life of the process. */
	if (!lookup)
		return false;
	void *(*load)(const char *, int) = NULL; /* ours is called like it */
	void *found = lookup(RTLD_NEXT, "dlopen");
	memcpy(&load, &found, sizeof load);
	void *handle = load ? load(sonames[library], RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (handle) {
		struct real_driver looked_up;
		memset(&looked_up, 0, sizeof looked_up);
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			if (rows[i].library != library)
				continue;
			void *address = lookup(handle, rows[i].symbol);
			memcpy((char *)&looked_up + rows[i].offset, &address, sizeof address);
		}
		publish(library, &looked_up);
	}
	dlerror(); /* a name that the driver lacks is no news to the program */
	errno = saved_errno;
	return handle != NULL;
}
