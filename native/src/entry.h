/* What the .S files, entry.c and entry_loader.c tell each other. */
#pragma once

#include <dlfcn.h>
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

/* The mode to go on with into the real dlopen and dlmopen; sets where that is. */
int hamid_dlopen_mode(const char *file, int mode);
int hamid_dlmopen_mode(Lmid_t space, const char *file, int mode);
extern void *hamid_dlopen_target;
extern void *hamid_dlmopen_target;

/* What a look-up of "dlopen" or "dlmopen" found: ours, where that is the real one. */
void *hamid_own_loader(const char *symbol, void *found);
