#include "hook_table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "hooks.h"

static const struct hook_row hook_rows[] = {
#define HOOK(library, result, symbol, params) \
	{#symbol, REAL_##library, (void *)symbol, offsetof(struct real_driver, symbol)},
#include "hooks.def"
#undef HOOK
};

#define ROWS (sizeof hook_rows / sizeof *hook_rows)

static const struct {
	const char *name;
	int cuda_version;
	void *hook;
} lookups[] = {
#define LOOKUP(name, version, symbol) {#name, version, (void *)symbol},
#include "lookups.def"
#undef LOOKUP
};

#define LOOKUPS (sizeof lookups / sizeof *lookups)

static _Atomic(void *) answers[LOOKUPS]; /* by lookup; NULL: none, or not yet asked */

const struct hook_row *hook_table_find(const char *symbol)
{
	/* Nearly every look-up in a process is none of ours; two letters tell. */
	if (!((symbol[0] == 'c' && symbol[1] == 'u') || (symbol[0] == 'n' && symbol[1] == 'v')))
		return NULL;
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(hook_rows[i].symbol, symbol) == 0)
			return &hook_rows[i];
	return NULL;
}

void *hook_table_real(const struct hook_row *row)
{
	void *address = NULL;
	if (real_load(row->library))
		memcpy(&address, (const char *)&real + row->real_offset, sizeof address);
	return address;
}

void hook_table_learn_lookups(void)
{
	static _Atomic bool is_learned;
	if (atomic_load_explicit(&is_learned, memory_order_acquire))
		return;
	for (size_t i = 0; i < LOOKUPS; i++) {
		void *found = NULL;
		CUresult cr = CUDA_ERROR_NOT_FOUND;
		CUdriverProcAddressQueryResult status;
		if (real.cuGetProcAddress_v2)
			cr = real.cuGetProcAddress_v2(lookups[i].name, &found,
						      lookups[i].cuda_version, 0, &status);
		else if (real.cuGetProcAddress)
			cr = real.cuGetProcAddress(lookups[i].name, &found,
						   lookups[i].cuda_version, 0);
		if (cr == CUDA_SUCCESS)
			atomic_store_explicit(&answers[i], found, memory_order_relaxed);
	}
	/* Threads that meet here learn the same. */
	atomic_store_explicit(&is_learned, true, memory_order_release);
}

void *hook_table_swap(enum real_library library, void *address)
{
	if (!address || !real_load(library))
		return address;
	for (size_t i = 0; i < ROWS; i++)
		if (hook_rows[i].library == library && hook_table_real(&hook_rows[i]) == address)
			return hook_rows[i].hook;
	for (size_t i = 0; library == REAL_CUDA && i < LOOKUPS; i++)
		if (atomic_load_explicit(&answers[i], memory_order_relaxed) == address)
			return lookups[i].hook;
	return address;
}
