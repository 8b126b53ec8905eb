#include "hook_table.h"

#include <string.h>

#include "hooks.h"

static const struct hook_row hook_rows[] = {
#define HOOK(library, result, symbol, params) \
	{#symbol, REAL_##library, (void *)symbol, offsetof(struct real_driver, symbol)},
#include "hooks.def"
#undef HOOK
};

#define ROWS (sizeof hook_rows / sizeof *hook_rows)

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

void *hook_table_swap(enum real_library library, void *address)
{
	if (!address || !real_load(library))
		return address;
	for (size_t i = 0; i < ROWS; i++)
		if (hook_rows[i].library == library && hook_table_real(&hook_rows[i]) == address)
			return hook_rows[i].hook;
	return address;
}
