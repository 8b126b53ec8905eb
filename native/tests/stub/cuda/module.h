/*
 * Code: modules of a context, libraries of the process, and the functions in them.
 *
 * Nothing is read of an image but its size. Any name is a function of it; a name that contains
 * `sim_<n>ns` takes n nanoseconds of device time a launch, `sim_<n>ns_wave` as much for each wave of
 * blocks, any other HAMID_SIM_KERNEL_NS (5000) a wave.
 */
#pragma once

#include "heap.h"
#include "object.h"
#include "table.h"

#define FUNCTION_ATTRIBUTES 20

struct CUmod_st {
	struct object object;
	struct block *code; /* device memory; under space_lock */
	struct table functions, globals; /* by hash of the name; under the module lock */
	CUlibrary library; /* NULL: loaded as a module */
};

struct CUfunc_st {
	struct object object;
	CUmodule module;
	char *name;
	uint64_t fixed_ns, wave_ns;
	bool is_told_ns; /* by the first parameter */
	int attributes[FUNCTION_ATTRIBUTES];
	int block[3]; /* for the launches of before CUDA 4 */
};

struct CUkern_st {
	struct object object;
	CUlibrary library;
	char *name;
	int attributes[FUNCTION_ATTRIBUTES];
};

/* A function by its handle, which may be a kernel's; NULL when it is none. */
CUfunction function_of(const void *handle);

/* Under no lock. */
CUresult module_new(CUcontext context, uint64_t image_bytes, CUmodule *ret_module);
void module_free(CUmodule module);
CUresult module_function(CUmodule module, const char *name, CUfunction *ret_function);
CUresult module_global(CUmodule module, const char *name, CUdeviceptr *ret_address,
		       size_t *ret_bytes);

/* How long an image is: fat binary, ELF file or text. */
uint64_t image_bytes(const void *image);
CUresult image_file_bytes(const char *path, uint64_t *ret_bytes);

/* Forget what a library has in a module (library.c). */
CUresult library_function(CUkernel kernel, CUfunction *ret_function);
uint64_t name_hash(const char *name);
