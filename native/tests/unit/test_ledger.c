/* ledger.c: the table of live allocations, and what it gives back. */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "container.h"
#include "ledger.h"
#include "pages.h"
#include "test.h"

#define MIB (1ull << 20)
#define MANY 5000u

static uint64_t used_bytes(void)
{
	uint64_t used = 12345;
	EXPECT_EQUAL(pages_used(TEST_UUID, &used), 0);
	return used;
}

static uint64_t address_of(uint64_t i)
{
	return 0x7f0000000000ull + i * 2 * MIB;
}

static void *churn(void *argument)
{
	const uint64_t base = *(const uint64_t *)argument;
	for (uint64_t i = 0; i < 2000; i++) {
		struct ledger_charge charge;
		if (ledger_reserve(TEST_UUID, 4096, &charge) < 0)
			continue;
		ledger_commit(&charge, address_of(base + i));
		if (ledger_take(address_of(base + i), &charge) == 0)
			ledger_release(&charge);
	}
	return NULL;
}

static void check_many(void)
{
	struct ledger_charge charge;
	CHECK("many live blocks are each found again, in any order")
	{
		for (uint64_t i = 0; i < MANY; i++) {
			EXPECT_EQUAL(ledger_reserve(TEST_UUID, i + 1, &charge), 0);
			ledger_commit(&charge, address_of(i));
		}
		EXPECT_EQUAL(used_bytes(), (uint64_t)MANY * (MANY + 1) / 2);
		for (uint64_t i = 0; i < MANY; i++) {
			uint64_t at = i * 1237 % MANY;
			EXPECT_EQUAL(ledger_take(address_of(at), &charge), 0);
			EXPECT_EQUAL(charge.size_bytes, at + 1);
			EXPECT_EQUAL(ledger_take(address_of(at), &charge), -ENOENT);
			ledger_release(&(struct ledger_charge){.size_bytes = at + 1, .device = charge.device});
		}
		EXPECT_EQUAL(used_bytes(), 0);
	}
}

static void check_threads(void)
{
	pthread_t threads[4];
	uint64_t bases[4];
	for (uint64_t i = 0; i < 4; i++) {
		bases[i] = 1000000 * (i + 1);
		pthread_create(&threads[i], NULL, churn, &bases[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	struct ledger_charge charge, other;
	test_make_container();
	test_set_limit(100 * MIB);

	CHECK("a charge lives from reserve to release")
	{
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 60 * MIB, &charge), 0);
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 60 * MIB, &other), -ENOMEM);
		ledger_commit(&charge, address_of(1));
		EXPECT_EQUAL(ledger_take(address_of(1), &charge), 0);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		ledger_release(&charge);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what the driver refuses is not counted")
	{
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 60 * MIB, &charge), 0);
		ledger_cancel(&charge);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what the driver would not free stays counted")
	{
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 60 * MIB, &charge), 0);
		ledger_commit(&charge, address_of(1));
		EXPECT_EQUAL(ledger_take(address_of(1), &charge), 0);
		ledger_put_back(&charge, address_of(1));
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		EXPECT_EQUAL(ledger_take(address_of(1), &charge), 0);
		ledger_release(&charge);
	}

	CHECK("addresses that are not ours are not found")
	{
		EXPECT_EQUAL(ledger_take(0, &charge), -ENOENT);
		EXPECT_EQUAL(ledger_take(0x1234, &charge), -ENOENT);
	}

	CHECK("an address that the driver gives again frees what stood there")
	{
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 60 * MIB, &charge), 0);
		ledger_commit(&charge, address_of(1));
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, 20 * MIB, &charge), 0);
		ledger_commit(&charge, address_of(1));
		EXPECT_EQUAL(used_bytes(), 20 * MIB);
		EXPECT_EQUAL(ledger_take(address_of(1), &charge), 0);
		ledger_release(&charge);
	}

	CHECK("an unnamed device has no memory to give")
	{
		EXPECT_EQUAL(ledger_reserve("GPU-unnamed", 1, &charge), -ENOMEM);
	}

	check_many();
	CHECK("threads leave no charge behind")
	{
		check_threads();
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("a forked child starts with an empty ledger")
	{
		EXPECT_EQUAL(ledger_reserve(TEST_UUID, MIB, &charge), 0);
		ledger_commit(&charge, address_of(1));
		pid_t child = fork();
		if (child == 0)
			_exit(ledger_take(address_of(1), &charge) == -ENOENT ? 0 : 1);
		int status = -1;
		waitpid(child, &status, 0);
		EXPECT_EQUAL(status, 0);
		EXPECT_EQUAL(used_bytes(), MIB);
	}

	test_remove_container();
	return test_report();
}
