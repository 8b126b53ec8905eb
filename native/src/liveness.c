#include "liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"

struct process_stat {
	char state;
	uint64_t thread_count;
	uint64_t start_time_ticks;
};

/* The C library's would bring in a version that older ones lack. */
static uint64_t parse_number(const char *at)
{
	uint64_t number = 0;
	for (; *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	return number;
}

/* Fields 3, 20 and 22 of /proc/<pid>/stat; the name in field 2 may hold anything, ')' included. */
static bool parse_stat(char *text, struct process_stat *ret_stat)
{
	char *at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	at += 2;
	ret_stat->state = *at;
	for (int field = 3; field < 22; field++) {
		if (field == 20)
			ret_stat->thread_count = parse_number(at);
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	ret_stat->start_time_ticks = parse_number(at);
	return true;
}

static bool read_stat(uint32_t pid, struct process_stat *ret_stat)
{
	char path[32], text[1024];
	snprintf(path, sizeof path, "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t length = read(fd, text, sizeof text - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return parse_stat(text, ret_stat);
}

struct process_identity liveness_self(void)
{
	struct process_identity self = {.pid = (uint32_t)getpid()};
	struct process_stat process;
	struct stat namespace;
	if (read_stat(self.pid, &process))
		self.start_time_ticks = process.start_time_ticks;
	if (sys_stat("/proc/self/ns/pid", &namespace) == 0)
		self.pid_namespace = namespace.st_ino;
	return self;
}

bool liveness_is_gone(const struct process_identity *identity)
{
	struct process_stat process;
	if (kill((pid_t)identity->pid, 0) < 0 && errno == ESRCH)
		return true;
	if (!read_stat(identity->pid, &process))
		return false; /* not to be told: alive, which errs on the side of the limit */
	if (process.state == 'X' || (process.state == 'Z' && process.thread_count <= 1))
		return true;
	return identity->start_time_ticks && process.start_time_ticks != identity->start_time_ticks;
}

/*
 * The text comes in pieces; a name across two is found because each begins with the last one's end.
 */
bool liveness_lacks_mapping(uint32_t pid, const char *file_name)
{
	char path[32], text[4096 + 1];
	const size_t overlap = strlen(file_name);
	size_t kept = 0;
	bool is_found = false, is_empty = true;
	snprintf(path, sizeof path, "/proc/%u/maps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t length;
	while (!is_found && (length = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
		size_t end = kept + (size_t)length;
		text[end] = '\0';
		is_empty = false;
		is_found = strstr(text, file_name) != NULL;
		kept = end < overlap ? end : overlap;
		memmove(text, text + end - kept, kept);
	}
	close(fd);
	return length == 0 && !is_found && !is_empty;
}
