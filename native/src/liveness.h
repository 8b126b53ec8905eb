/*
 * Who a process is, and whether it still lives: pid, start time and pid namespace together, since a
 * pid alone is soon somebody else's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct process_identity {
	uint32_t pid;
	uint64_t start_time_ticks; /* 0: unknown */
	uint64_t pid_namespace;    /* 0: unknown */
};

struct process_identity liveness_self(void);

/*
 * Is the process certainly gone? Only for one of our own pid namespace. A zombie counts as gone:
 * the kernel has closed its devices by then; one whose other threads still run does not.
 */
bool liveness_is_gone(const struct process_identity *identity);

/* Has the process certainly no file of this name mapped? False where it cannot be told. */
bool liveness_lacks_mapping(uint32_t pid, const char *file_name);
