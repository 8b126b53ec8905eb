/* Names and texts of errors, and failures on order. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const struct {
	int error;
	const char *name;
	const char *text;
} errors[] = {
#define ERROR(number, name, text) {number, #name, text},
#include "errors.def"
#undef ERROR
};

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == (int)error) {
			*name = errors[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == (int)error) {
			*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

static __thread struct {
	const char *symbol; /* NULL: none */
	CUresult result;
} next_failure;

SIM_EXPORT bool hamid_sim_fail_next(const char *symbol, CUresult result)
{
	const bool was_waiting = next_failure.symbol != NULL;
	next_failure.symbol = symbol;
	next_failure.result = result;
	return was_waiting;
}

CUresult sim_injected(const char *symbol)
{
	static const char *orders;
	static bool is_read;
	if (!__atomic_load_n(&is_read, __ATOMIC_ACQUIRE)) {
		const char *at = getenv("HAMID_SIM_CUDA_FAIL");
		__atomic_store_n(&orders, at && *at ? at : NULL, __ATOMIC_RELAXED);
		__atomic_store_n(&is_read, true, __ATOMIC_RELEASE);
	}
	if (next_failure.symbol && strcmp(symbol, next_failure.symbol) == 0) {
		next_failure.symbol = NULL;
		return next_failure.result;
	}
	size_t length = orders ? strlen(symbol) : 0;
	for (const char *at = orders; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, symbol, length) == 0 && at[length] == '=')
			return (CUresult)strtol(at + length + 1, NULL, 10);
	return CUDA_SUCCESS;
}

CUresult sim_enter(const char *symbol)
{
	CUresult cr = sim_injected(symbol);
	return cr == CUDA_SUCCESS ? sim_ready() : cr;
}
