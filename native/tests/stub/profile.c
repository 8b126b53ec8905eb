/* See profile.h for what this is. */
#define _GNU_SOURCE
#include "profile.h"
#include "profile_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE_BYTES (1u << 20)

const char *profile_path(void)
{
	const char *named = getenv(PROFILE_ENV);

	return named && *named ? named : PROFILE_DEFAULT_PATH;
}

static struct card *begin_card(struct profile *profile)
{
	struct card *card = &profile->cards[profile->card_count];

	memset(card, 0, sizeof *card);
	card->index = card->minor = profile->card_count;
	card->numa_node = card->pcie_switch = -1;
	card->pci_bus = profile->card_count + 1;
	card->cc_major = 8;
	card->multiprocessors = 108;
	card->p2p = true;
	card->temperature_c = 30;
	card->power_mw = 30 * 1000;
	card->power_limit_mw = 300 * 1000;
	profile->card_count++;
	return card;
}

static const char *complaint_of_card(const struct card *card)
{
	if (!card->uuid[0])
		return "the card has no uuid";
	if (!card->name[0])
		return "the card has no name";
	if (card->memory_mib == 0)
		return "the card has no memory_mib";
	return NULL;
}

/* A block is a card's when one of its lines sets the uuid: look ahead to the next blank line. */
static bool block_has_uuid(const char *text)
{
	for (const char *line = text; line && *line && *line != '\n'; line++) {
		if (strncmp(line, "uuid=", 5) == 0)
			return true;
		line = strchr(line, '\n');
		if (!line)
			return false;
	}
	return false;
}

struct reader {
	struct profile *profile;
	struct card *card;   /* of the current block, or NULL */
	bool is_in_block;
	const char *why;
};

static bool end_block(struct reader *reader)
{
	if (reader->card)
		reader->why = complaint_of_card(reader->card);
	reader->card = NULL;
	reader->is_in_block = false;
	return reader->why == NULL;
}

static bool read_line(struct reader *reader, char *line, bool has_uuid)
{
	char *equals = strchr(line, '=');
	bool is_known = false;
	bool is_good;

	if (!equals) {
		reader->why = "expected key=value, a comment or a blank line";
		return false;
	}
	*equals = '\0';
	if (!reader->is_in_block && has_uuid) {
		if (reader->profile->card_count == PROFILE_MAX_CARDS) {
			reader->why = "more cards than the simulation holds";
			return false;
		}
		reader->card = begin_card(reader->profile);
	}
	reader->is_in_block = true;
	if (reader->card)
		is_good = profile_set_card(reader->card, line, equals + 1, &is_known);
	else
		is_good = profile_set_driver(reader->profile, line, equals + 1, &is_known);
	if (!is_good)
		reader->why = is_known ? "bad value" : "unknown key (a card's block needs a uuid)";
	return is_good;
}

/* `text` is cut up on the way. */
static int parse_mutable(char *text, struct profile *profile, int *ret_line, const char **ret_why)
{
	struct reader reader = {.profile = profile};
	char *line = text;
	int number = 0;

	strcpy(profile->driver_version, "580.65.06");
	profile->cuda_version = 13000;
	while (line && *line) {
		bool has_uuid = !reader.is_in_block && block_has_uuid(line);
		char *next = strchr(line, '\n');
		bool is_good = true;

		if (next)
			*next++ = '\0';
		number++;
		line += strspn(line, " \t\r");
		line[strcspn(line, "\r")] = '\0';
		if (*line == '\0')
			is_good = end_block(&reader);
		else if (*line != '#')
			is_good = read_line(&reader, line, has_uuid);
		if (!is_good)
			break;
		line = next;
	}
	if (!reader.why)
		end_block(&reader);
	*ret_line = number;
	*ret_why = reader.why;
	return reader.why ? -EINVAL : 0;
}

int profile_parse(const char *text, size_t length, struct profile *profile, int *ret_line,
		  const char **ret_why)
{
	struct profile *fresh = calloc(1, sizeof *fresh);
	char *copy = malloc(length + 1);
	int r = -ENOMEM;

	if (fresh && copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
		r = parse_mutable(copy, fresh, ret_line, ret_why);
		if (r == 0)
			*profile = *fresh;
	}
	free(copy);
	free(fresh);
	return r;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static ssize_t read_whole(int fd, char *text, size_t capacity)
{
	size_t length = 0;

	while (length < capacity) {
		ssize_t n = read(fd, text + length, capacity - length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

static int read_profile(int fd, const char *path, off_t size, struct profile *profile)
{
	if (size > (off_t)MAX_FILE_BYTES)
		return -EFBIG;

	char *text = malloc((size_t)size + 1);

	if (!text)
		return -ENOMEM;

	ssize_t length = read_whole(fd, text, (size_t)size);
	const char *why = NULL;
	int line = 0;
	int r = length < 0 ? (int)length
			   : profile_parse(text, (size_t)length, profile, &line, &why);

	if (r == -EINVAL)
		fprintf(stderr, "hamid-sim: %s:%d: %s; the cards stay as they were\n", path, line, why);
	free(text);
	return r;
}

int profile_refresh(const char *path, struct profile_file *file, struct profile *profile)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (file->is_read && file->inode == st.st_ino && file->size == st.st_size &&
	    is_same_time(file->modified_at, st.st_mtim) && is_same_time(file->changed_at, st.st_ctim))
		return 0;

	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -EIO;
	}
	*file = (struct profile_file){.modified_at = st.st_mtim,
				      .changed_at = st.st_ctim,
				      .inode = st.st_ino,
				      .size = st.st_size,
				      .is_read = true};
	int r = read_profile(fd, path, st.st_size, profile);

	close(fd);
	return r < 0 ? r : 1;
}

static bool is_named(const struct card *card, const char *name)
{
	uint64_t index;

	if (strcmp(card->uuid, name) == 0)
		return true;
	if (profile_read_number(name, UINT32_MAX, &index))
		return index == card->index;
	for (uint32_t i = 0; i < card->instance_count; i++)
		if (strcmp(card->instances[i].uuid, name) == 0)
			return true;
	return false;
}

static bool is_visible(const struct card *card, const char *visible)
{
	char name[PROFILE_TEXT];

	for (const char *at = visible; *at;) {
		size_t length = strcspn(at, ",");

		if (length < sizeof name) {
			memcpy(name, at, length);
			name[length] = '\0';
			if (is_named(card, name))
				return true;
		}
		at += length + (at[length] == ',');
	}
	return false;
}

void profile_filter(struct profile *profile, const char *visible)
{
	uint32_t kept = 0;

	if (!visible || strcmp(visible, "all") == 0)
		return;
	if (strcmp(visible, "none") == 0 || strcmp(visible, "void") == 0)
		visible = "";
	for (uint32_t i = 0; i < profile->card_count; i++) {
		if (!is_visible(&profile->cards[i], visible))
			continue;
		if (kept != i)
			profile->cards[kept] = profile->cards[i];
		kept++;
	}
	profile->card_count = kept;
}

const struct card *profile_find(const struct profile *profile, const char *uuid,
				const struct instance **ret_instance)
{
	for (uint32_t i = 0; i < profile->card_count; i++) {
		const struct card *card = &profile->cards[i];

		if (ret_instance)
			*ret_instance = NULL;
		if (strcmp(card->uuid, uuid) == 0)
			return card;
		for (uint32_t j = 0; j < card->instance_count; j++) {
			if (strcmp(card->instances[j].uuid, uuid) != 0)
				continue;
			if (ret_instance)
				*ret_instance = &card->instances[j];
			return card;
		}
	}
	return NULL;
}
