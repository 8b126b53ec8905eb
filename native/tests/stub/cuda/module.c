/* See module.h. */
#include "module.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "context.h"

#define GLOBAL_BYTES 4096
#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN 0xba55ed50u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t name_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (const char *at = name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x100000001b3ull;
	return hash ? hash : 1;
}

static uint64_t elf_bytes(const uint8_t *elf)
{
	uint64_t sections;
	uint16_t size, count;

	memcpy(&sections, elf + 40, sizeof sections);
	memcpy(&size, elf + 58, sizeof size);
	memcpy(&count, elf + 60, sizeof count);
	return sections + (uint64_t)size * count;
}

uint64_t image_bytes(const void *image)
{
	uint32_t magic;

	if (strnlen(image, sizeof magic) < sizeof magic && *(const uint8_t *)image < 0x80)
		return 4; /* text that is shorter than any magic number */
	if (memcmp(image, "\177ELF", 4) == 0)
		return elf_bytes(image);
	memcpy(&magic, image, sizeof magic);
	if (magic == FATBIN_WRAPPER)
		memcpy(&image, (const char *)image + 8, sizeof image);
	memcpy(&magic, image, sizeof magic);
	if (magic != FATBIN)
		return strlen(image) + 1;
	uint16_t header;
	uint64_t bytes;

	memcpy(&header, (const char *)image + 6, sizeof header);
	memcpy(&bytes, (const char *)image + 8, sizeof bytes);
	return header + bytes;
}

CUresult image_file_bytes(const char *path, uint64_t *ret_bytes)
{
	struct stat st;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	if (stat(path, &st) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	*ret_bytes = (uint64_t)st.st_size + 1;
	return CUDA_SUCCESS;
}

CUresult module_new(CUcontext context, uint64_t bytes, CUmodule *ret_module)
{
	CUmodule module = object_new(OBJECT_MODULE, sizeof *module, context);

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	space_lock();
	CUresult cr = heap_take(&context->heap, bytes, 0, context, NULL, &module->code);

	space_unlock();
	if (cr != CUDA_SUCCESS) {
		object_delete(OBJECT_MODULE, module);
		return cr;
	}
	*ret_module = module;
	return CUDA_SUCCESS;
}

void module_free(CUmodule module)
{
	struct block *block;
	CUfunction function;
	size_t at = 0;

	while ((function = table_next(&module->functions, &at))) {
		free(function->name);
		object_delete(OBJECT_FUNCTION, function);
	}
	at = 0;
	space_lock();
	while ((block = table_next(&module->globals, &at)))
		heap_give(block);
	heap_give(module->code);
	space_unlock();
	free(module->functions.keys);
	free(module->functions.values);
	free(module->globals.keys);
	free(module->globals.values);
	object_delete(OBJECT_MODULE, module);
}

void module_drop_context(CUcontext context)
{
	CUmodule module;

	while ((module = object_of_context(OBJECT_MODULE, context)))
		module_free(module);
}

static uint64_t default_wave_ns(void)
{
	static uint64_t ns;

	if (ns == 0) {
		const char *given = getenv("HAMID_SIM_KERNEL_NS");

		ns = given ? strtoull(given, NULL, 10) + 1 : 5001;
	}
	return ns - 1;
}

/* How long it takes, by its name. */
static void time_function(CUfunction function)
{
	const char *at = strstr(function->name, "sim_");
	char *end = NULL;
	uint64_t ns = at ? strtoull(at + 4, &end, 10) : 0;

	function->is_told_ns = at && strncmp(at, "sim_told", 8) == 0;
	if (!at || end == at + 4 || strncmp(end, "ns", 2) != 0)
		function->wave_ns = default_wave_ns();
	else if (strncmp(end, "ns_wave", 7) == 0)
		function->wave_ns = ns;
	else
		function->fixed_ns = ns;
}

static CUfunction make_function(CUmodule module, const char *name)
{
	static const int first[FUNCTION_ATTRIBUTES] = {1024, 0, 0, 0, 32, 80, 80, 0, 49152, -1};
	CUfunction function = object_new(OBJECT_FUNCTION, sizeof *function, module->object.context);

	if (!function)
		return NULL;
	function->module = module;
	function->name = strdup(name);
	function->block[0] = function->block[1] = function->block[2] = 1;
	memcpy(function->attributes, first, sizeof first);
	if (function->name)
		time_function(function);
	if (function->name && table_add(&module->functions, name_hash(name), function))
		return function;
	free(function->name);
	object_delete(OBJECT_FUNCTION, function);
	return NULL;
}

CUresult module_function(CUmodule module, const char *name, CUfunction *ret_function)
{
	if (!name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	CUfunction function = table_find(&module->functions, name_hash(name));

	if (!function)
		function = make_function(module, name);
	pthread_mutex_unlock(&mutex);
	if (!function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult module_global(CUmodule module, const char *name, CUdeviceptr *ret_address,
		       size_t *ret_bytes)
{
	CUcontext context = module->object.context;
	CUresult cr = CUDA_SUCCESS;

	if (!name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	struct block *block = table_find(&module->globals, name_hash(name));

	if (!block) {
		space_lock();
		cr = heap_take(&context->heap, GLOBAL_BYTES, 0, context, NULL, &block);
		space_unlock();
		if (cr == CUDA_SUCCESS)
			table_add(&module->globals, name_hash(name), block);
	}
	pthread_mutex_unlock(&mutex);
	if (cr == CUDA_SUCCESS && ret_address)
		*ret_address = block->address;
	if (cr == CUDA_SUCCESS && ret_bytes)
		*ret_bytes = GLOBAL_BYTES;
	return cr;
}

static CUresult load(CUmodule *module, uint64_t bytes)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	return cr == CUDA_SUCCESS ? module_new(context, bytes, module) : cr;
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	SIM_ENTER();
	return module && image ? load(module, image_bytes(image)) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
				       int *options, void **values)
{
	(void)count, (void)options, (void)values;
	SIM_ENTER();
	return module && image ? load(module, image_bytes(image)) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	SIM_ENTER();
	return module && image ? load(module, image_bytes(image)) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	uint64_t bytes;

	SIM_ENTER();
	CUresult cr = module ? image_file_bytes(path, &bytes) : CUDA_ERROR_INVALID_VALUE;

	return cr == CUDA_SUCCESS ? load(module, bytes) : cr;
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MODULE, module) || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	module_free(module);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MODULE, module))
		return CUDA_ERROR_INVALID_HANDLE;
	return function ? module_function(module, name, function) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
					 const char *name)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MODULE, module))
		return CUDA_ERROR_INVALID_HANDLE;
	return module_global(module, name, address, bytes);
}

SIM_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MODULE, module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (unsigned int)module->functions.count;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleGetLoadingMode(int *mode)
{
	SIM_ENTER();
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = 2; /* lazy */
	return CUDA_SUCCESS;
}
