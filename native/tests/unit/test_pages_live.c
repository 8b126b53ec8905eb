/* pages_live.c, and what pages_control.c makes of it. */
#include "pages_live.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container.h"
#include "hamid_paths.h"
#include "pages.h"
#include "test.h"

#define NOW (1ull << 40)
#define GENERATION 7 /* of the control page */

struct live {
	struct hamid_live header;
	struct hamid_live_device devices[2];
};

static struct live fresh(uint64_t rate)
{
	return (struct live){
		.header =
			{
				.magic = HAMID_LIVE_MAGIC,
				.abi_version = HAMID_LIVE_VERSION,
				.size_bytes = sizeof(struct live),
				.header_bytes = sizeof(struct hamid_live),
				.device_bytes = sizeof(struct hamid_live_device),
				.device_count = 2,
				.heartbeat_ns = NOW,
				.generation = GENERATION,
			},
		.devices = {{.rate_permille = rate, .uncounted_bytes = 4096}, {.rate_permille = 77}},
	};
}

static void write_live(const struct live *page, size_t length)
{
	char path[512], beside[512];
	snprintf(path, sizeof path, "%s/%s", pages_limits_dir(), HAMID_LIVE_FILE);
	snprintf(beside, sizeof beside, "%s/new", pages_limits_dir());
	const int fd = open(beside, O_CREAT | O_TRUNC | O_WRONLY, 0644);
	EXPECT_EQUAL(write(fd, page, length), (long long)length);
	close(fd);
	EXPECT_EQUAL(rename(beside, path), 0);
	pages_live_look(pages_limits_dir());
}

static void check_page(void)
{
	CHECK("without a page nothing is said")
	{
		pages_live_look(pages_limits_dir());
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
	}

	CHECK("a page says a rate per device")
	{
		const struct live page = fresh(500);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), 500);
		EXPECT_EQUAL(pages_live_rate(1, GENERATION, NOW), 77);
		EXPECT_EQUAL(pages_live_rate(2, GENERATION, NOW), HAMID_RATE_UNSAID);
		EXPECT_EQUAL(pages_live_rate(UINT32_MAX, GENERATION, NOW), HAMID_RATE_UNSAID);
	}

	CHECK("it says what is held of a device beyond what is charged")
	{
		EXPECT_EQUAL(pages_live_uncounted(0, GENERATION, NOW), 4096);
		EXPECT_EQUAL(pages_live_uncounted(1, GENERATION, NOW), 0);
		EXPECT_EQUAL(pages_live_uncounted(2, GENERATION, NOW), 0);
	}

	CHECK("a page that goes with another control page says nothing")
	{
		EXPECT_EQUAL(pages_live_rate(0, GENERATION + 1, NOW), HAMID_RATE_UNSAID);
		EXPECT_EQUAL(pages_live_uncounted(0, GENERATION + 1, NOW), 0);
	}

	CHECK("a page whose heart does not beat says nothing")
	{
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW + HAMID_LIVE_STALE_NS), 500);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW + HAMID_LIVE_STALE_NS + 1), HAMID_RATE_UNSAID);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW - 1000000000), HAMID_RATE_UNSAID);
		EXPECT_EQUAL(pages_live_uncounted(0, GENERATION, NOW + HAMID_LIVE_STALE_NS), 4096);
		EXPECT_EQUAL(pages_live_uncounted(0, GENERATION, NOW + HAMID_LIVE_STALE_NS + 1), 0);
	}

	CHECK("a rate beyond reason is as if unsaid; to stop is one")
	{
		struct live page = fresh(HAMID_RATE_MAX_PERMILLE + 1);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
		page = fresh(HAMID_RATE_STOP);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_STOP);
	}

	CHECK("a pipe in its place says nothing, and nobody waits for it")
	{
		char path[512];
		snprintf(path, sizeof path, "%s/%s", pages_limits_dir(), HAMID_LIVE_FILE);
		unlink(path);
		EXPECT_EQUAL(mkfifo(path, 0644), 0);
		pages_live_look(pages_limits_dir());
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
	}

	CHECK("what is no live page says nothing")
	{
		struct live page = fresh(500);
		write_live(&page, sizeof page - 1);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
		write_live(&page, 5);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
		page.header.abi_version++;
		write_live(&page, sizeof page);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
		page = fresh(500);
		page.header.device_count = UINT32_MAX;
		write_live(&page, sizeof page);
		EXPECT_EQUAL(pages_live_rate(0, GENERATION, NOW), HAMID_RATE_UNSAID);
	}
}

static struct pages_rate rate_at(uint64_t now_ns)
{
	static struct pages_device device = {.uuid = TEST_UUID};
	struct pages_rate rate = {0};
	EXPECT_EQUAL(pages_device_rate(&device, now_ns, &rate), 0);
	return rate;
}

static void write_cap(uint32_t percent, uint32_t mode)
{
	struct test_page page = test_control_page(HAMID_UNLIMITED);
	page.header.mode = mode;
	page.devices[0].core_percent = percent;
	test_seal(&page);
	test_write_control(&page, sizeof page);
}

static void check_modes(void)
{
	struct live page = fresh(900);
	write_live(&page, sizeof page);

	CHECK("a hard cap is corrected, within bounds, and never lent")
	{
		write_cap(30, HAMID_MODE_HARD);
		EXPECT_EQUAL(rate_at(NOW).permille, 900);
		EXPECT(rate_at(NOW).is_live);
		page = fresh(5000);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(rate_at(NOW).permille, 1200);
		page = fresh(1);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(rate_at(NOW).permille, 75);
		page = fresh(HAMID_RATE_STOP);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(rate_at(NOW).permille, 300);
	}

	CHECK("in the other modes the host decides from moment to moment")
	{
		write_cap(30, HAMID_MODE_LEND);
		EXPECT_EQUAL(rate_at(NOW).permille, HAMID_RATE_STOP);
		page = fresh(950);
		write_live(&page, sizeof page);
		EXPECT_EQUAL(rate_at(NOW).permille, 950);
		EXPECT(rate_at(NOW).is_live);
	}

	CHECK("when nobody decides any more, the caps hold")
	{
		const struct pages_rate rate = rate_at(NOW + HAMID_LIVE_STALE_NS + 1);
		EXPECT_EQUAL(rate.permille, 300);
		EXPECT_EQUAL(rate.percent, 30);
		EXPECT(!rate.is_live);
	}

	CHECK("without a cap there is none, but for what the host decides")
	{
		write_cap(0, HAMID_MODE_HARD);
		EXPECT_EQUAL(rate_at(NOW).permille, 0);
		write_cap(100, HAMID_MODE_PRIORITY);
		EXPECT_EQUAL(rate_at(NOW).permille, 950);
	}

	CHECK("where nobody decides what is left, there is all of it, and no more is queued than if somebody did")
	{
		const struct pages_rate rate = rate_at(NOW + HAMID_LIVE_STALE_NS + 1);
		EXPECT_EQUAL(rate.permille, 1000);
		EXPECT_EQUAL(rate.percent, 0);
		EXPECT(rate.is_live);
	}

	CHECK("a control page that never could be trusted allows nothing")
	{
		struct pages_device other = {.uuid = TEST_UUID};
		struct pages_rate rate;
		char path[512];
		snprintf(path, sizeof path, "%s/%s", pages_limits_dir(), HAMID_CONTROL_FILE);
		unlink(path);
		EXPECT_EQUAL(pages_device_rate(&other, NOW, &rate), -EPERM);
		EXPECT_EQUAL(rate_at(NOW + HAMID_LIVE_STALE_NS + 1).percent, 0);
	}
}

int main(void)
{
	test_make_container();
	write_cap(30, HAMID_MODE_LEND);
	check_page();
	check_modes();
	test_remove_container();
	return test_report();
}
