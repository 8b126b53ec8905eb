/* Look-up by name and version, names of errors, injected failures. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const struct {
	const char *name;
	int version;
	void *function;
} forms[] = {
#define SIM(name, version, symbol) {#name, version, (void *)symbol},
#include "symbols.def"
#undef SIM
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
static CUdriverProcAddressQueryResult find(const char *name, int cuda_version, void **ret_function)
{
	CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*ret_function = NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (strcmp(forms[i].name, name) != 0)
			continue;
		if (result == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
			result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		if (forms[i].version <= cuda_version) {
			*ret_function = alias_of(forms[i].function);
			result = CU_GET_PROC_ADDRESS_SUCCESS;
		}
	}
	return result;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
{
	if (!symbol || !function || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	return find(symbol, cuda_version, function) == CU_GET_PROC_ADDRESS_SUCCESS ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
			     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !function || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	CUdriverProcAddressQueryResult result = find(symbol, cuda_version, function);
	if (status)
		*status = result;
	/* With a status to put it in, an unknown name is no error of the call. */
	return result == CU_GET_PROC_ADDRESS_SUCCESS || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static const struct {
	int error;
	const char *name;
	const char *text;
} errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	 "system has unsupported display driver / cuda driver combination"},
	{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == (int)error) {
			*name = errors[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == (int)error) {
			*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_injected(const char *symbol)
{
	const char *at = getenv("HAMID_SIM_CUDA_FAIL");
	size_t length = strlen(symbol);
	while (at && *at) {
		if (strncmp(at, symbol, length) == 0 && at[length] == '=')
			return (CUresult)strtol(at + length + 1, NULL, 10);
		at = strchr(at, ',');
		at += at ? 1 : 0;
	}
	return CUDA_SUCCESS;
}
