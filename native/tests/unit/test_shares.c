/* usage_shares.c, pages_shares.c: what several processes have is counted once, until the last of them lets go of it. */
#include <errno.h>
#include <signal.h>

#include "children.h"
#include "container.h"
#include "pages.h"
#include "pages_shares.h"
#include "pages_usage.h"
#include "test.h"
#include "usage_file.h"
#include "usage_shares.h"

#define KIND 7
#define BLOCK 0x7000
#define LIMIT (100 * MIB)

static uint16_t cell; /* of the device; the same in all processes */

static struct pages_offer offer_of(uint64_t key, uint64_t size_bytes)
{
	return (struct pages_offer){.key = key, .size_bytes = size_bytes, .cell = cell};
}

static int offer_60(uint64_t key, uint64_t block)
{
	const struct pages_offer offer = offer_of(key, 60 * MIB);
	int r = take_60();
	return r ? r : -pages_share_offer(KIND, block, &offer);
}

static int make_and_wait(void)
{
	int r = offer_60(11, BLOCK);
	pause();
	return r;
}

static int make_and_end(void)
{
	return offer_60(11, BLOCK);
}

static int open_11_and_end(void)
{
	return pages_share_open(11) < 0;
}

static int open_11_and_be_killed(void)
{
	if (pages_share_open(11) < 0)
		return 1;
	raise(SIGKILL);
	return 2;
}

/* A child that has made it; opened by us as soon as it is there. */
static pid_t start_maker(int *ret_share)
{
	pid_t child = fork();
	if (child == 0)
		_exit(make_and_wait());
	while ((*ret_share = pages_share_open(11)) == -ENOENT)
		usleep(1000);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int adopt(uint64_t key, uint64_t size_bytes)
{
	const struct pages_offer offer = offer_of(key, size_bytes);
	uint32_t device;
	EXPECT_EQUAL(test_reserve(TEST_UUID, size_bytes, LIMIT, &device), 0);
	const int share = pages_share_adopt(&offer);
	pages_release(cell, size_bytes);
	return share;
}

static int adopt_12_and_ask_for_60(void)
{
	return adopt(12, 30 * MIB) < 0 ? 1 : take_60();
}

static uint32_t shares(void)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < usage_shares_end(usage_file_page()); i++)
		count += usage_share_at(usage_file_page(), i)->key != 0;
	return count;
}

static void fill_the_table(void)
{
	struct pages_offer offer = offer_of(0, 0);
	int r = 0;
	uint64_t made = 0;
	for (offer.key = 100; r == 0 && made <= HAMID_SHARES_MAX; made += r == 0, offer.key++)
		r = pages_share_offer(KIND, offer.key, &offer);
	EXPECT_EQUAL(r, -ENOSPC);
	EXPECT_EQUAL(made, HAMID_SHARES_MAX);
	for (uint64_t key = 100; key < 100 + made; key += 1000)
		EXPECT_EQUAL(pages_share_key_of(KIND, key), key);
	for (uint64_t key = 100; key < 100 + made; key++)
		pages_share_withdraw(KIND, key);
	EXPECT_EQUAL(shares(), 0);
}

int main(void)
{
	uint32_t device;
	int share;
	test_make_container();
	test_set_limit(LIMIT);
	EXPECT_EQUAL(test_reserve(TEST_UUID, MIB, LIMIT, &device), 0);
	cell = (uint16_t)device;
	pages_release(cell, MIB);

	CHECK("what nobody has opened goes with its maker")
	{
		EXPECT_EQUAL(in_child(make_and_end), 0);
		EXPECT_EQUAL(used_bytes(), 0);
		EXPECT_EQUAL(shares(), 0);
		EXPECT_EQUAL(pages_share_open(11), -ENOENT);
	}

	CHECK("what its maker has is charged to him, and then to all, until it is closed")
	{
		pid_t child = start_maker(&share);
		EXPECT(share >= 0);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		end_child(child);
		EXPECT_EQUAL(test_reserve(TEST_UUID, 41 * MIB, LIMIT, &device), -ENOMEM);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		EXPECT_EQUAL(pages_share_key((uint32_t)share), 11);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 0);
		EXPECT_EQUAL(shares(), 0);
	}

	CHECK("who is gone has nothing open")
	{
		pid_t child = start_maker(&share);
		EXPECT_EQUAL(in_child(open_11_and_end), 0);
		EXPECT_EQUAL(in_child(open_11_and_be_killed), -1);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		end_child(child);
		EXPECT_EQUAL(used_bytes(), 0);
		EXPECT_EQUAL(shares(), 0);
	}

	CHECK("opened twice, it is there until it is closed twice; also one's own")
	{
		EXPECT_EQUAL(offer_60(11, BLOCK), 0);
		share = pages_share_open(11);
		EXPECT_EQUAL(pages_share_open(11), share);
		pages_share_withdraw(KIND, BLOCK);
		EXPECT_EQUAL(used_bytes(), 120 * MIB); /* until it is released: never too little */
		pages_release(cell, 60 * MIB);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("of two with one key the one that has a maker is opened")
	{
		EXPECT_EQUAL(offer_60(11, BLOCK), 0);
		share = pages_share_open(11);
		pages_share_withdraw(KIND, BLOCK);
		const struct pages_offer offer = offer_of(11, MIB);
		EXPECT_EQUAL(pages_share_offer(KIND, BLOCK + 1, &offer), 0);
		const int newer = pages_share_open(11);
		EXPECT(newer >= 0 && newer != share);
		pages_release(cell, 60 * MIB);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 0);
		pages_share_withdraw(KIND, BLOCK + 1);
		EXPECT_EQUAL(used_bytes(), MIB);
		pages_share_close((uint32_t)newer);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what comes from elsewhere is counted once, and goes with the last")
	{
		share = adopt(12, 30 * MIB);
		EXPECT(share >= 0);
		EXPECT_EQUAL(in_child(adopt_12_and_ask_for_60), 0);
		EXPECT_EQUAL(used_bytes(), 30 * MIB);
		EXPECT_EQUAL(adopt(12, 30 * MIB), share);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 30 * MIB);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("where a device is oversubscribed, what is left counts as what cannot leave it, too")
	{
		uint64_t fixed = 0;
		struct pages_offer offer = offer_of(13, 30 * MIB);
		EXPECT_EQUAL(test_reserve(TEST_UUID_2, MIB, LIMIT, &device), 0);
		pages_release(device, MIB);
		offer.fixed_cell = (uint16_t)(device + 1);
		share = pages_share_adopt(&offer);
		EXPECT_EQUAL(used_bytes(), 30 * MIB);
		EXPECT_EQUAL(pages_used(TEST_UUID_2, &fixed), 0);
		EXPECT_EQUAL(fixed, 30 * MIB);
		pages_share_close((uint32_t)share);
		EXPECT_EQUAL(pages_used(TEST_UUID_2, &fixed), 0);
		EXPECT_EQUAL(fixed + used_bytes(), 0);
	}

	CHECK("what finds no place is not offered, and places come again")
	{
		fill_the_table();
		fill_the_table();
		EXPECT_EQUAL(used_bytes(), 0);
	}

	test_remove_container();
	return test_report();
}
