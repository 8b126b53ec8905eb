/*
 * A number on an open file, for whoever gets a descriptor of it: by dup, fork, exec, a socket or pidfd_getfd, in whichever
 * process. What shareable handles are files of, on the real driver, is not told apart by device and inode.
 *
 * It is an open-file-description lock for reading, far behind every file's end: such locks stand in each other's way
 * nowhere, go with the last descriptor of the file, and /proc/self/fdinfo names those of its own file alone.
 *
 * Threads: any. Keeps errno.
 */
#pragma once

#include <stdint.h>

#define DESCRIPTOR_NOTES (1ull << 61) /* notes are less than this */

/* Where the file takes none, whoever gets it finds none. */
void descriptor_note_put(int fd, uint64_t note);

/* 0: there is none. */
uint64_t descriptor_note_get(int fd);
