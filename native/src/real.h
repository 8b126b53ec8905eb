/*
 * The drivers' own functions, looked up in the drivers' own libraries, never in the global scope:
 * so they are never our hooks, nor anybody else's.
 *
 * Threads: a library's functions are published as a whole, when it is first seen loaded; no lock is
 * held while the dynamic linker is asked (it may hold its own and call us).
 * Never: load a library that the process has not loaded itself.
 */
#pragma once

#include <stdbool.h>

#include "cuda_subset.h"
#include "nvml_subset.h"

enum real_library {
	REAL_CUDA,
	REAL_NVML,
	REAL_LIBRARIES,
};

struct real_driver {
#define HOOK(library, result, symbol, class, name, version, stream, params) \
	result(*symbol) params;
#define REAL(library, result, symbol, params) result(*symbol) params;
#include "hooks.def"
#include "real.def"
#undef REAL
#undef HOOK
};

/*
 * Fields of a library are NULL until real_load() said true for it, and where the driver lacks one.
 */
extern struct real_driver real;

/*
 * Is the driver's library in this process? Fills `real` when it is. Keeps errno and dlerror's text.
 */
bool real_load(enum real_library library);

/*
 * For what each dlsym runs through: a sanitizer's runtime asks for what it replaces before it can check anything.
 */
#define BEFORE_SANITIZERS __attribute__((no_sanitize("address", "thread")))

/* The C library's dlsym (or the next interposer's); NULL only if there is none. */
typedef void *(*real_dlsym_fn)(void *handle, const char *symbol);
real_dlsym_fn real_dlsym(void);
