/*
 * How a program loads libraries (entry_jumps.S asks here). One thing is changed: RTLD_DEEPBIND,
 * with which a library finds `dlsym` in libc before it looks among the preloaded ones, is taken out.
 * Else its look-ups of the driver would go by us, and with them every limit.
 *
 * Only where there are limits, so in a container of ours; and only where the flag has a say: not when
 * the library is not to be loaded anew, and not in another namespace, which has a libc of its own.
 *
 * What such a library loses is that its own symbols come before those of the program and of what
 * was loaded with RTLD_GLOBAL; as with musl, or under a sanitizer.
 *
 * Threads: as entry.c: the dynamic linker may hold its lock when it asks.
 */
#include "entry.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "pages.h"
#include "real.h"

void *hamid_dlopen_target;
void *hamid_dlmopen_target;

extern void *dlopen_exported(const char *file, int mode) __asm__("dlopen");
extern void *dlmopen_exported(Lmid_t space, const char *file, int mode) __asm__("dlmopen");

/* Answer when there is nothing to load with below us (programs of before glibc 2.34). */
static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

static void *no_dlmopen(Lmid_t space, const char *file, int mode)
{
	(void)space;
	(void)file;
	(void)mode;
	return NULL;
}

static void find_target(void **target, const char *symbol, void *instead)
{
	if (__atomic_load_n(target, __ATOMIC_RELAXED))
		return;
	real_dlsym_fn lookup = real_dlsym();
	void *found = lookup ? lookup(RTLD_NEXT, symbol) : NULL;
	__atomic_store_n(target, found ? found : instead, __ATOMIC_RELAXED);
}

static int without_deep_binding(const char *file, int mode)
{
	if (!(mode & RTLD_DEEPBIND) || mode & RTLD_NOLOAD || !file || !pages_are_ours())
		return mode;
	return mode & ~RTLD_DEEPBIND;
}

int hamid_dlopen_mode(const char *file, int mode)
{
	int saved_errno = errno;
	find_target(&hamid_dlopen_target, "dlopen", (void *)no_dlopen);
	mode = without_deep_binding(file, mode);
	errno = saved_errno;
	return mode;
}

int hamid_dlmopen_mode(Lmid_t space, const char *file, int mode)
{
	int saved_errno = errno;
	find_target(&hamid_dlmopen_target, "dlmopen", (void *)no_dlmopen);
	if (space == LM_ID_BASE)
		mode = without_deep_binding(file, mode);
	errno = saved_errno;
	return mode;
}

void *hamid_own_loader(const char *symbol, void *found)
{
	if (strcmp(symbol, "dlopen") == 0) {
		find_target(&hamid_dlopen_target, symbol, (void *)no_dlopen);
		return found == hamid_dlopen_target ? (void *)dlopen_exported : found;
	}
	find_target(&hamid_dlmopen_target, symbol, (void *)no_dlmopen);
	return found == hamid_dlmopen_target ? (void *)dlmopen_exported : found;
}
