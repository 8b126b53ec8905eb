#include "descriptor_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_OFFSET (1ull << 62)

void descriptor_note_put(int fd, uint64_t note)
{
	int saved_errno = errno;
	struct flock lock = {
		.l_type = F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(FIRST_OFFSET + note % DESCRIPTOR_NOTES),
		.l_len = 1,
	};
	fcntl(fd, F_OFD_SETLK, &lock);
	errno = saved_errno;
}

/* "…OFDLCK ADVISORY READ -1 00:01:1041 <first byte> <last byte>": the last number but one of the line. */
static uint64_t first_byte(const char *line)
{
	uint64_t numbers[2] = {0};
	while (*line && *line != '\n') {
		uint64_t number = 0;
		while (*line == ' ')
			line++;
		for (; *line > ' '; line++)
			number = *line >= '0' && *line <= '9' ? number * 10 + (uint64_t)(*line - '0') : 0;
		numbers[0] = numbers[1];
		numbers[1] = number;
	}
	return numbers[0];
}

static uint64_t find_note(const char *text)
{
	for (const char *at = text; (at = strstr(at, "OFDLCK")); at++) {
		const uint64_t first = first_byte(at);
		if (first > FIRST_OFFSET && first < FIRST_OFFSET + DESCRIPTOR_NOTES)
			return first - FIRST_OFFSET;
	}
	return 0;
}

uint64_t descriptor_note_get(int fd)
{
	char path[48], text[2048];
	int saved_errno = errno;
	ssize_t length = -1;
	snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
	int info = open(path, O_RDONLY | O_CLOEXEC);
	if (info >= 0) {
		length = read(info, text, sizeof text - 1);
		close(info);
	}
	errno = saved_errno;
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return find_note(text);
}
