/*
 * The live page's reader. Input: a byte, then the file; with the byte's lowest bit its heart has just beaten. Built
 * of the source, so that what was mapped can be let go: a process keeps all it ever saw.
 */
#include "pages_live.c"

#include "container.h"
#include "fuzz.h"

#define NOW (1ull << 40)

static void write_live(const uint8_t *bytes, size_t length)
{
	char path[512], beside[512];
	snprintf(path, sizeof path, "%s/%s", test_dir, HAMID_LIVE_FILE);
	snprintf(beside, sizeof beside, "%s/new", test_dir);
	const int fd = open(beside, O_CREAT | O_TRUNC | O_WRONLY, 0644);
	MUST(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
	close(fd);
	MUST(rename(beside, path) == 0);
}

static void check_rate(uint32_t index, uint64_t generation, uint64_t now_ns)
{
	const uint64_t rate = pages_live_rate(index, generation, now_ns);
	MUST(rate <= HAMID_RATE_MAX_PERMILLE || rate == HAMID_RATE_STOP);
	pages_live_flags(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static uint8_t page[2 * HAMID_LIVE_BYTES_MAX];
	if (!*test_dir) {
		test_make_container();
		atexit(test_remove_container);
	}
	if (length < 1 || length > sizeof page)
		return 0;
	memcpy(page, bytes + 1, length - 1);
	uint64_t generation = 7;
	if (length - 1 >= sizeof(struct hamid_live)) {
		struct hamid_live *header = (struct hamid_live *)page;
		generation = header->generation;
		if (bytes[0] & 1)
			header->heartbeat_ns = NOW;
	}
	write_live(page, length - 1);
	pages_live_look(test_dir);
	const struct hamid_live *at = atomic_load(&mapped);
	if (at)
		MUST(sizeof *at + at->device_count * sizeof(struct hamid_live_device) <= length - 1);
	for (uint32_t index = 0; index <= HAMID_DEVICES_MAX; index++)
		check_rate(index, generation, NOW);
	check_rate(UINT32_MAX, generation, NOW);
	check_rate(0, generation + 1, NOW);
	check_rate(0, generation, UINT64_MAX);
	check_rate(0, generation, 0);
	atomic_store(&mapped, NULL);
	if (at)
		munmap((void *)(uintptr_t)at, (size_t)seen.st_size);
	memset(&seen, 0, sizeof seen);
	return 0;
}
