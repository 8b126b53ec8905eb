/* limits.c: what a control page must be, and what it says. */
#include <errno.h>

#include "container.h"
#include "limits.h"
#include "test.h"

static int parse(struct test_page *page, struct limits *ret_limits)
{
	const char *why = NULL;
	int r = limits_parse(page, sizeof *page, ret_limits, &why);
	EXPECT(r == 0 || why != NULL);
	return r;
}

/* Change one thing of a good page, seal it again, and see what is said. */
#define REFUSED(change, error) \
	do { \
		struct test_page page = test_control_page(1 << 20); \
		change; \
		test_seal(&page); \
		EXPECT_EQUAL(parse(&page, &limits), error); \
	} while (0)

int main(void)
{
	struct limits limits = {0};

	CHECK("a good page is read")
	{
		struct test_page page = test_control_page(3000ull << 20);
		test_seal(&page);
		EXPECT_EQUAL(parse(&page, &limits), 0);
		EXPECT_EQUAL(limits.device_count, 2);
		EXPECT_EQUAL(limits.generation, 7);
		EXPECT_EQUAL(limits.priority, 1);
		EXPECT_EQUAL(limits.devices[0].memory_limit_bytes, 3000ull << 20);
		EXPECT_EQUAL(limits.devices[0].core_percent, 30);
		EXPECT(limits.devices[1].memory_limit_bytes == HAMID_UNLIMITED);
	}

	CHECK("a device is found whatever its UUID's prefix")
	{
		EXPECT(limits_find(&limits, TEST_UUID) == &limits.devices[0]);
		EXPECT(limits_find(&limits, "MIG-11111111-2222-3333-4444-555555555555") == &limits.devices[0]);
		EXPECT(limits_find(&limits, "GPU-22222222-2222-3333-4444-555555555555") == &limits.devices[1]);
		EXPECT(limits_find(&limits, "GPU-33333333-2222-3333-4444-555555555555") == NULL);
		EXPECT(limits_find(&limits, "GPU-1") == NULL);
	}

	CHECK("every bit that is flipped is noticed")
	{
		struct test_page good = test_control_page(1 << 20);
		test_seal(&good);
		for (size_t bit = 0; bit < sizeof good * 8; bit++) {
			struct test_page page = good;
			((uint8_t *)&page)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			EXPECT(parse(&page, &limits) < 0);
		}
	}

	CHECK("memory terms are read, and without them all of a limit is fixed")
	{
		struct test_page page = test_control_page(3000ull << 20);
		test_seal(&page);
		EXPECT_EQUAL(parse(&page, &limits), 0);
		EXPECT_EQUAL(limits.devices[0].fixed_limit_bytes, 3000ull << 20);
		EXPECT_EQUAL(limits.devices[0].context_bytes, 0);
		EXPECT(limits.devices[1].fixed_limit_bytes == HAMID_UNLIMITED);
		page.header.feature_bits = HAMID_CONTROL_HAS_MEMORY_TERMS;
		page.devices[0].context_bytes = 300 << 20;
		page.devices[0].fixed_limit_bytes = 1500ull << 20;
		page.devices[1].fixed_limit_bytes = HAMID_UNLIMITED;
		test_seal(&page);
		EXPECT_EQUAL(parse(&page, &limits), 0);
		EXPECT_EQUAL(limits.devices[0].fixed_limit_bytes, 1500ull << 20);
		EXPECT_EQUAL(limits.devices[0].context_bytes, 300 << 20);
		page.devices[0].fixed_limit_bytes = 9000ull << 20;
		test_seal(&page);
		EXPECT_EQUAL(parse(&page, &limits), 0);
		EXPECT_EQUAL(limits.devices[0].fixed_limit_bytes, 3000ull << 20);
	}

	CHECK("every length but the right one is refused")
	{
		struct test_page page = test_control_page(1 << 20);
		const char *why;
		test_seal(&page);
		for (size_t length = 0; length < sizeof page; length++)
			EXPECT(limits_parse(&page, length, &limits, &why) < 0);
	}

	CHECK("a page that is sealed but wrong is refused")
	{
		REFUSED(page.header.abi_version++, -EPROTO);
		REFUSED(page.header.feature_bits = 1ull << 63, -EPROTO);
		REFUSED(page.header.magic++, -EBADMSG);
		REFUSED(page.header.device_count = 1, -EBADMSG);
		REFUSED(page.header.device_count = UINT32_MAX, -EBADMSG);
		REFUSED(page.header.device_bytes = 64, -EBADMSG);
		REFUSED(page.header.header_bytes = 64, -EBADMSG);
		REFUSED(page.header.mode = 3, -EBADMSG);
		REFUSED(page.header.flags = HAMID_FLAG_TRUST_MPS, -EBADMSG);
		REFUSED((page.header.feature_bits = HAMID_CONTROL_HAS_FLAGS, page.header.flags = 2), -EBADMSG);
		REFUSED(page.header.reserved[67] = 1, -EBADMSG);
		REFUSED(page.devices[1].reserved[0] = 1, -EBADMSG);
		REFUSED(page.devices[0].context_bytes = 1, -EBADMSG);
		REFUSED(page.devices[0].fixed_limit_bytes = 1, -EBADMSG);
		REFUSED(page.devices[0].core_percent = 101, -EBADMSG);
		REFUSED(page.devices[0].uuid[0] = '\0', -EBADMSG);
		REFUSED(page.devices[0].uuid[3] = '\n', -EBADMSG);
		REFUSED(memset(page.devices[0].uuid, 'x', HAMID_UUID_BYTES), -EBADMSG);
		REFUSED(memcpy(page.devices[1].uuid, TEST_UUID, sizeof TEST_UUID), -EBADMSG);
	}

	CHECK("a refused page leaves the result alone")
	{
		struct test_page page = test_control_page(1 << 20);
		limits.generation = 99;
		EXPECT(parse(&page, &limits) < 0);
		EXPECT_EQUAL(limits.generation, 99);
	}
	return test_report();
}
