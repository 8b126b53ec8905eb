/*
 * Calls a target without libFuzzer: with each seed, then with changes of them that dice choose. The same dice
 * each time, and no eye on what is reached: less than libFuzzer finds, but any compiler builds it.
 *
 *   TARGET RUNS [SEED] SEEDS_DIR      or: TARGET FILE, to see again what one input does
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define FILES_MAX 256
#define BYTES_MAX 16384

static struct {
	uint8_t bytes[BYTES_MAX];
	size_t length;
} files[FILES_MAX];
static size_t file_count;
static uint64_t dice = 88172645463325252ull;

static uint64_t roll(uint64_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % sides;
}

static void read_file(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t length = fd < 0 ? -1 : read(fd, files[file_count].bytes, BYTES_MAX);
	if (length < 0) {
		perror(path);
		exit(2);
	}
	close(fd);
	files[file_count++].length = (size_t)length;
}

static void read_seeds(const char *path)
{
	struct dirent **entries;
	const int count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char name[4096];
		snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && file_count < FILES_MAX)
			read_file(name);
		free(entries[i]);
	}
	if (count < 0 || !file_count) {
		fprintf(stderr, "%s: no seeds\n", path);
		exit(2);
	}
	free(entries);
}

/* Numbers at which readers have an edge. */
static uint64_t telling_number(void)
{
	static const uint64_t numbers[] = {0, 1, 64, 65, 1024, 1025, 1ull << 31, UINT32_MAX, 1ull << 52,
					   1ull << 63, UINT64_MAX - 1, UINT64_MAX};
	return numbers[roll(sizeof numbers / sizeof *numbers)];
}

static size_t change(uint8_t *bytes, size_t length)
{
	const uint64_t number = roll(2) ? telling_number() : roll(UINT64_MAX);
	const size_t width = (size_t)1 << roll(4);
	size_t at = length ? roll(length) : 0;
	switch (roll(5)) {
	case 0:
		return length ? at : roll(BYTES_MAX);
	case 1:
		return length + roll(BYTES_MAX - length + 1);
	case 2:
		if (length)
			bytes[at] ^= (uint8_t)(1u << roll(8));
		return length;
	default:
		/* Fields are aligned, in what comes behind a byte or not. */
		at = at / width * width + roll(2);
		if (at + width <= length)
			memcpy(bytes + at, &number, width);
		return length;
	}
}

static void run_one(const uint8_t *bytes, size_t length)
{
	/* In memory of its own and no larger, so that a sanitizer sees who reads beyond. */
	uint8_t *copy = malloc(length ? length : 1);
	if (!copy)
		exit(2);
	memcpy(copy, bytes, length);
	LLVMFuzzerTestOneInput(copy, length);
	free(copy);
}

int main(int argc, char **argv)
{
	static uint8_t bytes[BYTES_MAX];
	if (argc == 2) {
		read_file(argv[1]);
		run_one(files[0].bytes, files[0].length);
		return 0;
	}
	if (argc < 3)
		return 2;
	const long runs = atol(argv[1]);
	if (argc > 3)
		dice ^= strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull;
	read_seeds(argv[argc - 1]);
	for (size_t i = 0; i < file_count; i++)
		run_one(files[i].bytes, files[i].length);
	for (long i = 0; i < runs; i++) {
		const size_t from = roll(file_count);
		size_t length = files[from].length;
		memset(bytes, 0, sizeof bytes);
		memcpy(bytes, files[from].bytes, length);
		for (uint64_t changes = 1 + roll(8); changes; changes--)
			length = change(bytes, length);
		run_one(bytes, length);
	}
	return 0;
}
