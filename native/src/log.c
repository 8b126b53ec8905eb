#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hamid_paths.h"

static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};

static enum log_level threshold(void)
{
	static _Atomic int cached = -1;
	int level = atomic_load_explicit(&cached, memory_order_relaxed);
	if (level >= 0)
		return (enum log_level)level;
	level = LOG_WARN;
	const char *wanted = getenv(HAMID_ENV_LOG);
	for (int i = 0; wanted && i <= LOG_DEBUG; i++)
		if (strcmp(wanted, level_names[i]) == 0)
			level = i;
	atomic_store_explicit(&cached, level, memory_order_relaxed);
	return (enum log_level)level;
}

void log_write(enum log_level level, const char *format, ...)
{
	int saved_errno = errno;
	if (level <= threshold()) {
		char line[512];
		int length = snprintf(line, sizeof line, "hamid %s: ", level_names[level]);
		va_list arguments;
		va_start(arguments, format);
		int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
		va_end(arguments);
		if (more > 0)
			length += more;
		if (length > (int)sizeof line - 2)
			length = (int)sizeof line - 2;
		line[length] = '\n';
		if (write(STDERR_FILENO, line, (size_t)length + 1) < 0)
			errno = 0; /* nobody listens: nothing to do about it */
	}
	errno = saved_errno;
}
