/*
 * What we have to say, on stderr, one prefix. Default: warnings and errors.
 * HAMID_LOG=error|warn|info| debug|off changes that; it is read at the first message, so silent
 * processes never read it.
 *
 * Keeps errno. Allocates nothing. One write per line.
 */
#pragma once

#include <stdatomic.h>

enum log_level {
	LOG_OFF,
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For what a person can mend: it is said once per process and place. */
#define log_once(level, ...) \
	do { \
		static atomic_flag said = ATOMIC_FLAG_INIT; \
		if (!atomic_flag_test_and_set(&said)) \
			log_write(level, __VA_ARGS__); \
	} while (0)
