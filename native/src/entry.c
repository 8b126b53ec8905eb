/*
 * Where the program's look-ups come in: dlsym (entry_jumps.S asks here) and cuGetProcAddress.
 * How it loads libraries is in entry_loader.c.
 *
 * There is no constructor: in a process that looks up no hooked symbol, this library does nothing
 * but compare two letters.
 *
 * Threads: no lock; dlsym may be called with the dynamic linker's lock held.
 * Never: change errno or dlerror's text where the program would not have seen it changed.
 */
#include "entry.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "hook_table.h"
#include "hooks.h"

void *hamid_dlsym_target;

extern void *dlsym_exported(void *handle, const char *symbol) __asm__("dlsym");

/* Answers when there is no dlsym to be found below us. */
static void *no_dlsym(void *handle, const char *symbol)
{
	(void)handle;
	(void)symbol;
	return NULL;
}

static struct link_map *object_of(const void *address)
{
	Dl_info info;
	struct link_map *map = NULL;
	if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP))
		return NULL;
	return map;
}

/*
 * Does the caller's object come before this library in the global search order? What comes before
 * a preloaded library is never unloaded, so the list can be walked without a lock.
 */
static bool is_before_us(const void *caller)
{
	const struct link_map *theirs = object_of(caller);
	const struct link_map *map = object_of((const void *)hamid_dlsym_answer);
	for (; theirs && map; map = map->l_prev)
		if (map == theirs)
			return true;
	return false;
}

static struct dlsym_answer final(void *value)
{
	return (struct dlsym_answer){.value = value, .is_final = 1};
}

static const struct dlsym_answer pass = {.value = NULL, .is_final = 0};

static struct dlsym_answer answer_hooked(real_dlsym_fn lookup, const struct hook_row *row,
					 void *handle, const char *symbol, const void *caller)
{
	void *driver = hook_table_real(row);

	if (!driver) {
		/* No driver here: our own export must not look like one. */
		if (handle == RTLD_NEXT && !is_before_us(caller))
			return pass;
		if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
			return final(lookup(RTLD_NEXT, symbol));
		void *found = lookup(handle, symbol);
		return final(found == row->hook ? lookup(RTLD_NEXT, symbol) : found);
	}

	if (handle == RTLD_NEXT)
		/*
		 * Before us, the search meets us, or an interposer that in turn meets us. After us
		 * it would go by: the answer is the hook.
		 */
		return is_before_us(caller) ? pass : final(row->hook);
	if (handle == RTLD_DEFAULT)
		return pass;
	void *found = lookup(handle, symbol);
	return final(found == driver ? row->hook : found);
}

BEFORE_SANITIZERS struct dlsym_answer hamid_dlsym_answer(void *handle, const char *symbol, void *caller)
{
	real_dlsym_fn lookup = real_dlsym();
	__atomic_store_n(&hamid_dlsym_target, lookup ? (void *)lookup : (void *)no_dlsym,
			 __ATOMIC_RELAXED);
	if (!lookup || !symbol)
		return pass;

	const struct hook_row *row = hook_table_find(symbol);
	if (row) {
		int saved_errno = errno;
		struct dlsym_answer answer = answer_hooked(lookup, row, handle, symbol, caller);
		errno = saved_errno;
		return answer;
	}

	if (handle == RTLD_NEXT || symbol[0] != 'd' || symbol[1] != 'l')
		return pass;
	if (strcmp(symbol, "dlsym") == 0) {
		void *found = lookup(handle, symbol);
		return final(found == (void *)lookup ? (void *)dlsym_exported : found);
	}
	if (strcmp(symbol, "dlopen") == 0 || strcmp(symbol, "dlmopen") == 0)
		return final(hamid_own_loader(symbol, lookup(handle, symbol)));
	return pass;
}

HOOK_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version,
				      cuuint64_t flags)
{
	if (!real_load(REAL_CUDA) || !real.cuGetProcAddress)
		return CUDA_ERROR_NOT_INITIALIZED;
	hook_table_learn_lookups();
	CUresult cr = real.cuGetProcAddress(symbol, function, cuda_version, flags);
	if (cr == CUDA_SUCCESS && function)
		*function = hook_table_swap(symbol, *function);
	return cr;
}

HOOK_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
					 cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (!real_load(REAL_CUDA) || !real.cuGetProcAddress_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	hook_table_learn_lookups();
	CUresult cr = real.cuGetProcAddress_v2(symbol, function, cuda_version, flags, status);
	if (cr == CUDA_SUCCESS && function)
		*function = hook_table_swap(symbol, *function);
	return cr;
}
