#include "hook_table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "hooks.h"

#define LEGACY 0
#define THREAD 2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

static const struct hook_row hook_rows[] = {
#define HOOK(library, result, symbol, class, name, version, stream, params) \
	{#symbol, #name, REAL_##library, version, stream, (void *)symbol, \
	 offsetof(struct real_driver, symbol)},
#include "hooks.def"
#undef HOOK
};

#define ROWS (sizeof hook_rows / sizeof *hook_rows)

static _Atomic(void *) answers[ROWS]; /* by row; NULL: none, or not yet asked */

BEFORE_SANITIZERS const struct hook_row *hook_table_find(const char *symbol)
{
	/* Nearly every look-up in a process is none of ours; two letters tell. */
	if (!((symbol[0] == 'c' && symbol[1] == 'u') || (symbol[0] == 'n' && symbol[1] == 'v')))
		return NULL;
	size_t low = 0, high = ROWS;
	while (low < high) {
		const size_t middle = (low + high) / 2;
		const int order = strcmp(symbol, hook_rows[middle].symbol);
		if (order == 0)
			return &hook_rows[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

void *hook_table_real(const struct hook_row *row)
{
	void *address = NULL;
	if (real_load(row->library))
		memcpy(&address, (const char *)&real + row->real_offset, sizeof address);
	return address;
}

static CUresult ask(const struct hook_row *row, void **ret_found)
{
	CUdriverProcAddressQueryResult status;
	if (real.cuGetProcAddress_v2)
		return real.cuGetProcAddress_v2(row->name, ret_found, row->cuda_version,
						row->stream_flags, &status);
	if (real.cuGetProcAddress)
		return real.cuGetProcAddress(row->name, ret_found, row->cuda_version,
					     row->stream_flags);
	return CUDA_ERROR_NOT_FOUND;
}

void hook_table_learn_lookups(void)
{
	static _Atomic bool is_learned;
	if (atomic_load_explicit(&is_learned, memory_order_acquire))
		return;
	for (size_t i = 0; i < ROWS; i++) {
		void *found = NULL;
		if (hook_rows[i].cuda_version && ask(&hook_rows[i], &found) == CUDA_SUCCESS)
			atomic_store_explicit(&answers[i], found, memory_order_relaxed);
	}
	/* Threads that meet here learn the same. */
	atomic_store_explicit(&is_learned, true, memory_order_release);
}

void *hook_table_swap(const char *name, void *address)
{
	/*
	 * A form's symbol begins with its name, or with another's: since 12.0 cuGraphInstantiate is
	 * cuGraphInstantiateWithFlags.
	 */
	const size_t length = strlen(name);
	/* Exported addresses first: an answer learnt for a form that the driver lacks is another's. */
	for (int is_learned = 0; address && is_learned < 2; is_learned++)
		for (size_t i = 0; i < ROWS; i++) {
			const struct hook_row *row = &hook_rows[i];
			if (row->library != REAL_CUDA || strncmp(row->symbol, name, length) != 0)
				continue;
			void *known = is_learned ?
				atomic_load_explicit(&answers[i], memory_order_relaxed) :
				hook_table_real(row);
			if (known == address)
				return row->hook;
		}
	return address;
}
