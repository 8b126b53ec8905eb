/*
 * The books with nonsense in them: any process of the container can write the usage page. Input: a byte (bit 0: a good
 * page to begin with, bit 1: of the wrong size, bit 2: who is in the first two slots lives), then records of where (4 bytes) and
 * what (8 bytes) is written.
 * Whatever stands there, more than the limit is never granted, and all comes to an end.
 *
 * Built of the source, so that each input meets a process that has not joined yet.
 */
#include "pages_usage.c"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget.h"
#include "container.h"
#include "fuzz.h"
#include "pages_shares.h"
#include "throttle.h"

#define MIB (1ull << 20)
#define LIMIT (100 * MIB)
#define SLOTS_NEAR 4
#define SHARES_NEAR 2
#define SLOTS_ALIVE 2

/* Most writes where it hurts: in the header, the names, the first slots, the first shares. */
static off_t place_of(uint64_t where)
{
	const uint64_t near = (where & 0x1fffffff) * sizeof(uint64_t);
	const uint64_t slots = SLOTS_NEAR * sizeof(struct hamid_usage_slot);
	switch (where >> 29) {
	case 0:
	case 1:
		return (off_t)(near % 128);
	case 2:
	case 3:
		return (off_t)(near % sizeof(struct hamid_usage));
	case 4:
	case 5:
		return (off_t)(sizeof(struct hamid_usage) + near % slots);
	case 6:
		return (off_t)(HAMID_USAGE_BYTES - HAMID_SHARES_MAX * sizeof(struct hamid_usage_share) +
			       near % (SHARES_NEAR * sizeof(struct hamid_usage_share)));
	default:
		return (off_t)(near % (HAMID_USAGE_BYTES - sizeof(uint64_t)));
	}
}

/* The file, which has to stay open while who is in it lives. */
static int write_usage(struct fuzz_input *input)
{
	const struct hamid_usage good = {
		.magic = HAMID_USAGE_MAGIC,
		.abi_version = HAMID_USAGE_VERSION,
		.size_bytes = HAMID_USAGE_BYTES,
		.header_bytes = sizeof(struct hamid_usage),
		.slot_bytes = sizeof(struct hamid_usage_slot),
		.slot_count = HAMID_SLOTS_MAX,
		.device_capacity = HAMID_DEVICES_MAX,
		.device_count = 1,
		.slots_high_water = 2,
		.device_uuids = {TEST_UUID},
	};
	const uint64_t form = fuzz_take(input, 1);
	const int fd = open(pages_usage_path(), O_CREAT | O_TRUNC | O_RDWR, 0666);
	MUST(fd >= 0);
	MUST(ftruncate(fd, (off_t)(form & 2 ? fuzz_take(input, 3) : HAMID_USAGE_BYTES)) == 0);
	if (form & 1)
		MUST(pwrite(fd, &good, sizeof good, 0) == (ssize_t)sizeof good);
	while (input->length) {
		const off_t at = place_of(fuzz_take(input, 4));
		const uint64_t what = fuzz_take(input, 8);
		MUST(pwrite(fd, &what, sizeof what, at) == (ssize_t)sizeof what);
	}
	for (int i = 0; form & 4 && i < SLOTS_ALIVE; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HAMID_LOCK_SLOT(i), .l_len = 1};
		MUST(fcntl(fd, F_OFD_SETLK, &lock) == 0);
	}
	return fd;
}

static void check_reservation(void)
{
	uint32_t cell = UINT32_MAX;
	uint64_t used = 0;
	const int r = test_reserve(TEST_UUID, 60 * MIB, LIMIT, &cell);
	MUST(r == 0 || r == -ENOMEM || r == -EPERM);
	if (r < 0)
		return;
	MUST(cell < HAMID_DEVICES_MAX);
	MUST(pages_used(TEST_UUID, &used) == 0);
	MUST(used >= 60 * MIB && used <= LIMIT);
	uint32_t other;
	MUST(test_reserve(TEST_UUID, 60 * MIB, LIMIT, &other) < 0);
	pages_release(cell, 60 * MIB);
	pages_release(cell, UINT64_MAX);
}

static void check_share(void)
{
	const struct pages_offer offer = {.key = 5, .size_bytes = MIB};
	const int opened = pages_share_open(1);
	MUST(opened < HAMID_SHARES_MAX);
	if (opened >= 0)
		pages_share_close((uint32_t)opened);
	const int r = pages_share_offer(1, 1, &offer);
	MUST(r == 0 || r == -ENOSPC || r == -EPERM || r == -EAGAIN);
	if (r == 0)
		MUST(pages_share_key_of(1, 1) == offer.key);
	pages_share_withdraw(1, 1);
}

static void check_list(void)
{
	struct pages_process processes[3] = {{.pid = 1, .used_bytes = 0}};
	const int count = pages_processes(TEST_UUID, processes, 2);
	MUST(count == -EPERM || (count >= 0 && count <= HAMID_SLOTS_MAX));
	MUST(processes[2].pid == 0);
}

static void check_budget(void)
{
	struct pages_device device = {.uuid = TEST_UUID, .name = TEST_UUID};
	struct hamid_budget *budget = pages_device_budget(&device);
	if (!budget)
		return;
	budget_want(budget, budget_now_ns());
	MUST(budget_try(budget, budget_now_ns(), UINT64_MAX, 1) <= THROTTLE_DEBT_NS);
	MUST(budget_try(budget, budget_now_ns(), 0, 1000) <= THROTTLE_DEBT_NS);
	budget_correct(budget, INT64_MIN, 300);
	MUST(budget_try(budget, budget_now_ns(), 1, 1000) <= THROTTLE_DEBT_NS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct fuzz_input input = {bytes, length < 4096 ? length : 4096};
	if (!*test_dir) {
		test_make_container();
		atexit(test_remove_container);
	}
	const int fd = write_usage(&input);
	check_list();
	check_reservation();
	check_share();
	check_list();
	check_budget();
	after_fork_in_child();
	close(fd);
	return 0;
}
