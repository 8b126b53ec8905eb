/* Libraries: code that goes with the process; each context that uses one gets a module of it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "module.h"

struct CUlib_st {
	struct object object;
	uint64_t bytes;
	struct table kernels; /* by hash of the name; under the mutex */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct search {
	CUlibrary library;
	CUcontext context;
	CUmodule found;
};

static void match(void *handle, void *argument)
{
	struct search *search = argument;
	CUmodule module = handle;

	if (module->library == search->library &&
	    (!search->context || module->object.context == search->context))
		search->found = module;
}

/* Its module in the context (NULL: in any). */
static CUmodule module_in(CUlibrary library, CUcontext context)
{
	struct search search = {.library = library, .context = context};

	object_each(OBJECT_MODULE, match, &search);
	return search.found;
}

static CUresult load_here(CUlibrary library, CUmodule *ret_module)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	*ret_module = module_in(library, context);
	if (*ret_module)
		return CUDA_SUCCESS;
	cr = module_new(context, library->bytes, ret_module);
	if (cr == CUDA_SUCCESS)
		(*ret_module)->library = library;
	return cr;
}

CUresult library_function(CUkernel kernel, CUfunction *ret_function)
{
	CUmodule module;
	CUresult cr = load_here(kernel->library, &module);

	return cr == CUDA_SUCCESS ? module_function(module, kernel->name, ret_function) : cr;
}

static CUresult load(CUlibrary *library, uint64_t bytes)
{
	CUlibrary made = object_new(OBJECT_LIBRARY, sizeof *made, NULL);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->bytes = bytes;
	*library = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
				      void **jit_values, unsigned int jit_count, int *options,
				      void **values, unsigned int count)
{
	(void)jit_options, (void)jit_values, (void)jit_count;
	(void)options, (void)values, (void)count;
	SIM_ENTER();
	return library && code ? load(library, image_bytes(code)) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit_options,
					  void **jit_values, unsigned int jit_count, int *options,
					  void **values, unsigned int count)
{
	uint64_t bytes;

	(void)jit_options, (void)jit_values, (void)jit_count;
	(void)options, (void)values, (void)count;
	SIM_ENTER();
	CUresult cr = library ? image_file_bytes(path, &bytes) : CUDA_ERROR_INVALID_VALUE;

	return cr == CUDA_SUCCESS ? load(library, bytes) : cr;
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	CUmodule module;
	CUkernel kernel;
	size_t at = 0;

	SIM_ENTER();
	if (!object_is(OBJECT_LIBRARY, library))
		return CUDA_ERROR_INVALID_HANDLE;
	while ((module = module_in(library, NULL)))
		module_free(module);
	while ((kernel = table_next(&library->kernels, &at))) {
		free(kernel->name);
		object_delete(OBJECT_KERNEL, kernel);
	}
	free(library->kernels.keys);
	free(library->kernels.values);
	object_delete(OBJECT_LIBRARY, library);
	return CUDA_SUCCESS;
}

static CUkernel make_kernel(CUlibrary library, const char *name)
{
	CUkernel kernel = object_new(OBJECT_KERNEL, sizeof *kernel, NULL);

	if (!kernel)
		return NULL;
	kernel->library = library;
	kernel->name = strdup(name);
	if (kernel->name && table_add(&library->kernels, name_hash(name), kernel))
		return kernel;
	free(kernel->name);
	object_delete(OBJECT_KERNEL, kernel);
	return NULL;
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	SIM_ENTER();
	if (!object_is(OBJECT_LIBRARY, library))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!kernel || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	*kernel = table_find(&library->kernels, name_hash(name));
	if (!*kernel)
		*kernel = make_kernel(library, name);
	pthread_mutex_unlock(&mutex);
	return *kernel ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	SIM_ENTER();
	if (!object_is(OBJECT_LIBRARY, library))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (unsigned int)library->kernels.count;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	SIM_ENTER();
	if (!object_is(OBJECT_LIBRARY, library))
		return CUDA_ERROR_INVALID_HANDLE;
	return module ? load_here(library, module) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
				       const char *name)
{
	CUmodule module;

	SIM_ENTER();
	if (!object_is(OBJECT_LIBRARY, library))
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult cr = load_here(library, &module);

	return cr == CUDA_SUCCESS ? module_global(module, name, address, bytes) : cr;
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	SIM_ENTER();
	if (!object_is(OBJECT_KERNEL, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	return function ? library_function(kernel, function) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	SIM_ENTER();
	if (!object_is(OBJECT_KERNEL, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!library)
		return CUDA_ERROR_INVALID_VALUE;
	*library = kernel->library;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	SIM_ENTER();
	if (!object_is(OBJECT_KERNEL, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = kernel->name;
	return CUDA_SUCCESS;
}
