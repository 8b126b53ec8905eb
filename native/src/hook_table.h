/*
 * hooks.def as a table: by symbol, and by the address of the driver's own function.
 *
 * The address decides. Whoever asks dlsym or cuGetProcAddress for a function gets the driver's
 * answer to exactly that question; only if the answer is a function that we hook, it is swapped
 * for the hook of the same ABI. So versions, flags and status are right by construction.
 *
 * A driver may answer cuGetProcAddress with other addresses than it exports for the same functions.
 * So it is asked once for each form that we hook, and what it answers is known as well.
 */
#pragma once

#include "real.h"

struct hook_row {
	const char *symbol;
	const char *name; /* as cuGetProcAddress takes it */
	enum real_library library;
	int cuda_version; /* that introduced this form; 0: not to be asked for */
	cuuint64_t stream_flags;
	void *hook;
	size_t real_offset; /* in struct real_driver */
};

/* The row of this symbol, or NULL. */
const struct hook_row *hook_table_find(const char *symbol);

/* The driver's function of a row; NULL when not loaded or lacking. */
void *hook_table_real(const struct hook_row *row);

/*
 * Learn under which addresses the driver's cuGetProcAddress gives what we hook; the first call does
 * it. Asks the driver, so never from dlsym.
 */
void hook_table_learn_lookups(void);

/*
 * What cuGetProcAddress answered to `name`: the hook of the driver's function at `address`, or
 * `address` itself. The name counts too, for a driver may have one function under several.
 */
void *hook_table_swap(const char *name, void *address);
