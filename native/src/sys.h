/*
 * stat and fstat as system calls: their names in glibc exist only since 2.33, and before that they
 * are macros of its headers. On 64-bit Linux the kernel's struct stat is the C library's.
 */
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int sys_stat(const char *path, struct stat *ret_stat)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_stat, 0);
}

static inline int sys_fstat(int fd, struct stat *ret_stat)
{
	return (int)syscall(SYS_fstat, fd, ret_stat);
}
