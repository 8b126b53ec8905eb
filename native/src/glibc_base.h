/*
 * Included before everything else (Makefile): one library for every image from glibc 2.17 on.
 *
 * glibc 2.34 moved libdl's and libpthread's functions into libc and gave them new versions; built
 * against it, a library asks for those, and an older image refuses it. The old versions are in
 * newer glibcs as well, so they are asked for by name. They are weak: before 2.34 they are in
 * libraries that a program without dlopen or threads has not loaded, and it is to start all the
 * same. Such a program cannot load a driver, so nothing here is called in it but for
 * real_dlsym(), which looks.
 *
 * stat and fstat, new functions in 2.33, are in sys.h.
 */
#pragma once

#if defined(__x86_64__)
#define HAMID_GLIBC_BASE "GLIBC_2.2.5"
#define HAMID_GLIBC_DLADDR1 "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define HAMID_GLIBC_BASE "GLIBC_2.17"
#define HAMID_GLIBC_DLADDR1 "GLIBC_2.17"
#else
#error "name the first glibc version of this architecture"
#endif

#include <dlfcn.h>
#include <pthread.h>

#define HAMID_OLD(symbol, version) \
	extern __typeof__(symbol) symbol __attribute__((weak)); \
	__asm__(".symver " #symbol "," #symbol "@" version)
HAMID_OLD(dladdr1, HAMID_GLIBC_DLADDR1);
HAMID_OLD(dlerror, HAMID_GLIBC_BASE);
HAMID_OLD(dlvsym, HAMID_GLIBC_BASE);
HAMID_OLD(pthread_once, HAMID_GLIBC_BASE);
#undef HAMID_OLD
