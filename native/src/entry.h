/* What entry_dlsym.S and entry.c tell each other. */
#pragma once

#include <stdint.h>

/*
 * Returned in two registers. `value` counts only if `is_final`; else the real dlsym is to answer.
 */
struct dlsym_answer {
	void *value;
	uintptr_t is_final;
};

struct dlsym_answer hamid_dlsym_answer(void *handle, const char *symbol, void *caller);

/* The real dlsym; set before hamid_dlsym_answer() returns for the first time. */
extern void *hamid_dlsym_target;
