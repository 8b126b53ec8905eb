/* Look-up by name and version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_api.h"
#include "sim.h"

/* Addresses only: what a function takes is none of the table's business. */
#define SIM(name, version, symbol) extern const char row_##symbol[] __asm__(#symbol);
#define SIM_THREAD(name, version, symbol, per_thread) \
	SIM(name, version, symbol) SIM(name, version, per_thread)
#define SIM_AGAIN(name, version, symbol)
#include "symbols.def"
#undef SIM
#undef SIM_THREAD
#undef SIM_AGAIN

#define PER_THREAD_STREAM 2

static const struct {
	const char *name;
	int version;
	const void *function;
	const void *per_thread; /* NULL: the same */
} forms[] = {
#define SIM(name, version, symbol) {#name, version, row_##symbol, NULL},
#define SIM_THREAD(name, version, symbol, per_thread) \
	{#name, version, row_##symbol, row_##per_thread},
#define SIM_AGAIN SIM
#include "symbols.def"
#undef SIM
#undef SIM_THREAD
#undef SIM_AGAIN
};

/*
 * HAMID_SIM_CUDA_ALIASES=1: cuGetProcAddress answers with functions that are exported under no name,
 * as a driver is free to do.
 */
static CUresult alias_total(size_t *bytes, CUdevice device)
{
	return cuDeviceTotalMem_v2(bytes, device);
}

static CUresult alias_alloc(CUdeviceptr *address, size_t bytes)
{
	return cuMemAlloc_v2(address, bytes);
}

static CUresult alias_alloc_v1(CUdeviceptr_v1 *address, unsigned int bytes)
{
	return cuMemAlloc(address, bytes);
}

static CUresult alias_free(CUdeviceptr address)
{
	return cuMemFree_v2(address);
}

static CUresult alias_info(size_t *free_bytes, size_t *total_bytes)
{
	return cuMemGetInfo_v2(free_bytes, total_bytes);
}

static CUresult alias_look_up(const char *symbol, void **function, int cuda_version,
			      cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	return cuGetProcAddress_v2(symbol, function, cuda_version, flags, status);
}

static void *alias_of(void *function)
{
	static const struct {
		void *exported, *alias;
	} aliases[] = {
		{(void *)cuDeviceTotalMem_v2, (void *)alias_total},
		{(void *)cuMemAlloc_v2, (void *)alias_alloc},
		{(void *)cuMemAlloc, (void *)alias_alloc_v1},
		{(void *)cuMemFree_v2, (void *)alias_free},
		{(void *)cuMemGetInfo_v2, (void *)alias_info},
		{(void *)cuGetProcAddress_v2, (void *)alias_look_up},
	};
	for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
		if (aliases[i].exported == function && getenv("HAMID_SIM_CUDA_ALIASES"))
			return aliases[i].alias;
	return function;
}

/* The newest form that the asked version knows; a name without such a form is told apart. */
static CUdriverProcAddressQueryResult find(const char *name, int cuda_version, cuuint64_t flags,
					   void **ret_function)
{
	CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*ret_function = NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (strcmp(forms[i].name, name) != 0 || forms[i].version > sim_cuda_version())
			continue; /* what is newer than the driver, it has never heard of */
		if (result == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
			result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		if (forms[i].version <= cuda_version) {
			bool is_per_thread = flags == PER_THREAD_STREAM && forms[i].per_thread;

			*ret_function = alias_of((void *)(uintptr_t)(is_per_thread
									     ? forms[i].per_thread
									     : forms[i].function));
			result = CU_GET_PROC_ADDRESS_SUCCESS;
		}
	}
	return result;
}

/* HAMID_SIM_CUDA_ASKED: a file that each request is added to; the empty name as "-". */
static void note_asked(int form, const char *symbol, int cuda_version, cuuint64_t flags)
{
	const char *path = getenv("HAMID_SIM_CUDA_ASKED");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "%d %s %d %llu\n", form, *symbol ? symbol : "-", cuda_version,
		(unsigned long long)flags);
	fclose(file);
}

SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
{
	if (!symbol || !function || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	note_asked(1, symbol, cuda_version, flags);
	return find(symbol, cuda_version, flags, function) == CU_GET_PROC_ADDRESS_SUCCESS ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
			     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !function || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	note_asked(2, symbol, cuda_version, flags);
	CUdriverProcAddressQueryResult result = find(symbol, cuda_version, flags, function);
	if (status)
		*status = result;
	/* With a status to put it in, an unknown name is no error of the call. */
	return result == CU_GET_PROC_ADDRESS_SUCCESS || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
