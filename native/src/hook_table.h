/*
 * hooks.def as a table: by symbol, and by the address of the driver's own function.
 *
 * The address decides. Whoever asks dlsym or cuGetProcAddress for a function gets the driver's
 * answer to exactly that question; only if the answer is a function that we hook, it is swapped
 * for the hook of the same ABI. So versions, flags and status are right by construction.
 */
#pragma once

#include "real.h"

struct hook_row {
	const char *symbol;
	enum real_library library;
	void *hook;
	size_t real_offset; /* in struct real_driver */
};

/* The row of this symbol, or NULL. */
const struct hook_row *hook_table_find(const char *symbol);

/* The driver's function of a row; NULL when not loaded or lacking. */
void *hook_table_real(const struct hook_row *row);

/* The hook of the driver's function at `address`, or `address` itself. */
void *hook_table_swap(enum real_library library, void *address);
