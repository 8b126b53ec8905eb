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
#define CONTEXT 0x7000u

static struct pages_device card = {.uuid = TEST_UUID};
static struct pages_device unnamed = {.uuid = "GPU-unnamed"};

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

static void commit(const struct ledger_charge *charge, uint64_t address)
{
	EXPECT_EQUAL(ledger_commit(charge, LEDGER_MEMORY, address, CONTEXT), 0);
}

static int take(uint64_t address, struct ledger_entry *ret_entry)
{
	return ledger_take(LEDGER_MEMORY, address, ret_entry);
}

static void *churn(void *argument)
{
	const uint64_t base = *(const uint64_t *)argument;
	for (uint64_t i = 0; i < 2000; i++) {
		struct ledger_charge charge;
		struct ledger_entry entry;
		if (ledger_reserve(&card, 4096, &charge) < 0)
			continue;
		if (ledger_commit(&charge, LEDGER_MEMORY, address_of(base + i), CONTEXT) < 0)
			continue;
		if (take(address_of(base + i), &entry) == 0)
			ledger_release(&entry);
	}
	return NULL;
}

static void set_fixed_limit(uint64_t limit_bytes, uint64_t fixed_bytes)
{
	struct test_page page = test_control_page(limit_bytes);
	page.header.feature_bits = HAMID_CONTROL_HAS_MEMORY_TERMS;
	page.devices[0].fixed_limit_bytes = fixed_bytes;
	page.devices[1].fixed_limit_bytes = HAMID_UNLIMITED;
	test_seal(&page);
	test_write_control(&page, sizeof page);
}

static uint64_t fixed_used_bytes(void)
{
	uint64_t used = 12345;
	EXPECT_EQUAL(pages_used(TEST_UUID HAMID_FIXED_SUFFIX, &used), 0);
	return used;
}

static void check_oversubscribed(void)
{
	struct ledger_charge fixed, managed, none;
	struct ledger_entry entry;
	CHECK("of an oversubscribed device what is fixed is held to its share, and all to the limit")
	{
		set_fixed_limit(100, 60);
		EXPECT_EQUAL(ledger_reserve(&card, 61, &none), -ENOMEM);
		EXPECT_EQUAL(ledger_reserve(&card, 50, &fixed), 0);
		EXPECT(ledger_is_oversubscribed(&card));
		EXPECT_EQUAL(ledger_reserve(&card, 11, &none), -ENOMEM);
		EXPECT_EQUAL(used_bytes(), 50);
		EXPECT_EQUAL(ledger_reserve_managed(&card, 51, &managed), -ENOMEM);
		EXPECT_EQUAL(ledger_reserve_managed(&card, 45, &managed), 0);
		EXPECT_EQUAL(ledger_reserve(&card, 6, &none), -ENOMEM);
		EXPECT_EQUAL(used_bytes(), 95);
		EXPECT_EQUAL(fixed_used_bytes(), 50);
	}

	CHECK("what is given back goes back to both")
	{
		EXPECT_EQUAL(ledger_resize(&fixed, 20), 0);
		EXPECT_EQUAL(fixed_used_bytes(), 20);
		EXPECT_EQUAL(ledger_resize(&fixed, 61), -ENOMEM);
		ledger_force(&fixed, 70);
		EXPECT_EQUAL(fixed_used_bytes(), 70);
		EXPECT_EQUAL(used_bytes(), 115);
		commit(&fixed, 0x1000);
		commit(&managed, 0x2000);
		EXPECT_EQUAL(take(0x1000, &entry), 0);
		ledger_release(&entry);
		EXPECT_EQUAL(take(0x2000, &entry), 0);
		ledger_release(&entry);
		EXPECT_EQUAL(used_bytes(), 0);
		EXPECT_EQUAL(fixed_used_bytes(), 0);
	}

	CHECK("a share that is raised is seen before a no")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 60, &fixed), 0);
		set_fixed_limit(100, 90);
		EXPECT_EQUAL(ledger_reserve(&card, 30, &none), 0);
		ledger_cancel(&fixed);
		ledger_cancel(&none);
		EXPECT_EQUAL(fixed_used_bytes(), 0);
	}
}

static void check_many(void)
{
	struct ledger_charge charge;
	struct ledger_entry entry;
	CHECK("many live blocks are each found again, in any order")
	{
		for (uint64_t i = 0; i < MANY; i++) {
			EXPECT_EQUAL(ledger_reserve(&card, i + 1, &charge), 0);
			commit(&charge, address_of(i));
		}
		EXPECT_EQUAL(used_bytes(), (uint64_t)MANY * (MANY + 1) / 2);
		for (uint64_t i = 0; i < MANY; i++) {
			uint64_t at = i * 1237 % MANY;
			EXPECT_EQUAL(take(address_of(at), &entry), 0);
			EXPECT_EQUAL(entry.size_bytes, at + 1);
			ledger_release(&entry);
			EXPECT_EQUAL(take(address_of(at), &entry), -ENOENT);
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

static void check_references(void)
{
	struct ledger_charge charge;
	struct ledger_entry entry;
	CHECK("what several references keep is taken out with the last")
	{
		EXPECT_EQUAL(ledger_reserve(&card, MIB, &charge), 0);
		EXPECT_EQUAL(ledger_commit(&charge, LEDGER_HANDLE, 77, 0), 0);
		EXPECT_EQUAL(ledger_hold(LEDGER_HANDLE, 77), 0);
		EXPECT_EQUAL(ledger_let_go(LEDGER_HANDLE, 77, &entry), 0);
		EXPECT_EQUAL(entry.count, 1);
		EXPECT_EQUAL(ledger_let_go(LEDGER_HANDLE, 77, &entry), 0);
		EXPECT_EQUAL(entry.count, 0);
		ledger_release(&entry);
		EXPECT_EQUAL(ledger_let_go(LEDGER_HANDLE, 77, &entry), -ENOENT);
		EXPECT_EQUAL(ledger_hold(LEDGER_HANDLE, 77), -ENOENT);
		EXPECT_EQUAL(used_bytes(), 0);
	}
}

static void check_contexts(void)
{
	struct ledger_charge charge;
	struct ledger_entry entry;
	CHECK("a destroyed context releases what was taken in it, and nothing else")
	{
		for (uint64_t i = 0; i < MANY; i++) {
			EXPECT_EQUAL(ledger_reserve(&card, 4096, &charge), 0);
			EXPECT_EQUAL(ledger_commit(&charge, i % 2 ? LEDGER_ARRAY : LEDGER_MEMORY,
						   address_of(i), CONTEXT + i % 3), 0);
		}
		EXPECT_EQUAL(ledger_reserve(&card, 4096, &charge), 0);
		EXPECT_EQUAL(ledger_commit(&charge, LEDGER_HANDLE, 77, CONTEXT), 0);
		ledger_release_owned(CONTEXT, ledger_mark());
		EXPECT_EQUAL(used_bytes(), (MANY - (MANY + 2) / 3 + 1) * 4096ull);
		EXPECT_EQUAL(take(address_of(0), &entry), -ENOENT);
		EXPECT_EQUAL(take(address_of(2), &entry), 0);
		ledger_release(&entry);
		ledger_release_owned(CONTEXT + 1, ledger_mark());
		ledger_release_owned(CONTEXT + 2, ledger_mark());
		EXPECT_EQUAL(used_bytes(), 4096);
		EXPECT_EQUAL(ledger_take(LEDGER_HANDLE, 77, &entry), 0);
		ledger_release(&entry);
	}

	CHECK("what was taken in a context that got the handle of a destroyed one is not released with that")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 4096, &charge), 0);
		commit(&charge, address_of(0));
		const uint32_t mark = ledger_mark();
		/* The driver destroys it; another thread gets the handle, and allocates. */
		EXPECT_EQUAL(ledger_reserve(&card, 8192, &charge), 0);
		commit(&charge, address_of(1));
		EXPECT_EQUAL(take(address_of(1), &entry), 0); /* which the driver then will not free */
		ledger_put_back(&entry);
		ledger_release_owned(CONTEXT, mark);
		EXPECT_EQUAL(used_bytes(), 8192);
		EXPECT_EQUAL(take(address_of(0), &entry), -ENOENT);
		ledger_release_owned(CONTEXT, ledger_mark());
		EXPECT_EQUAL(used_bytes(), 0);
	}
}

static void check_changes(void)
{
	struct ledger_charge charge;
	CHECK("a charge can grow up to the limit, shrink, and be forced above it")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 10 * MIB, &charge), 0);
		EXPECT_EQUAL(ledger_resize(&charge, 101 * MIB), -ENOMEM);
		EXPECT_EQUAL(used_bytes(), 10 * MIB);
		EXPECT_EQUAL(ledger_resize(&charge, 100 * MIB), 0);
		EXPECT_EQUAL(used_bytes(), 100 * MIB);
		ledger_force(&charge, 120 * MIB);
		EXPECT_EQUAL(used_bytes(), 120 * MIB);
		EXPECT_EQUAL(ledger_resize(&charge, MIB), 0);
		EXPECT_EQUAL(used_bytes(), MIB);
		ledger_cancel(&charge);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("a charge of nothing is had above the limit too, and can be forced")
	{
		struct ledger_charge opened;
		EXPECT_EQUAL(ledger_reserve(&card, 90 * MIB, &charge), 0);
		test_set_limit(50 * MIB);
		EXPECT_EQUAL(ledger_open(&card, &opened), 0);
		EXPECT_EQUAL(ledger_resize(&opened, 1), -ENOMEM);
		ledger_force(&opened, 20 * MIB);
		EXPECT_EQUAL(used_bytes(), 110 * MIB);
		ledger_cancel(&opened);
		ledger_cancel(&charge);
		test_set_limit(100 * MIB);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("a raised limit is seen before a refusal, a lowered one in time")
	{
		setenv("HAMID_TEST_LOOK_EVERY_MS", "3600000", 1);
		pages_look_again();
		EXPECT_EQUAL(ledger_reserve(&card, MIB, &charge), 0);
		test_set_limit(200 * MIB);
		EXPECT_EQUAL(ledger_resize(&charge, 150 * MIB), 0);
		test_set_limit(100 * MIB);
		pages_look_again(); /* as if the time were up */
		EXPECT_EQUAL(ledger_resize(&charge, 151 * MIB), -ENOMEM);
		ledger_cancel(&charge);
		unsetenv("HAMID_TEST_LOOK_EVERY_MS");
		pages_look_again();
	}
}

int main(void)
{
	struct ledger_charge charge, other;
	struct ledger_entry entry;
	test_make_container();
	test_set_limit(100 * MIB);

	CHECK("a charge lives from reserve to release")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 60 * MIB, &charge), 0);
		EXPECT_EQUAL(ledger_reserve(&card, 60 * MIB, &other), -ENOMEM);
		commit(&charge, address_of(1));
		EXPECT_EQUAL(take(address_of(1), &entry), 0);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		ledger_release(&entry);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what the driver refuses is not counted")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 60 * MIB, &charge), 0);
		ledger_cancel(&charge);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("what the driver would not free stays counted")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 60 * MIB, &charge), 0);
		commit(&charge, address_of(1));
		EXPECT_EQUAL(take(address_of(1), &entry), 0);
		ledger_put_back(&entry);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		EXPECT_EQUAL(take(address_of(1), &entry), 0);
		ledger_release(&entry);
	}

	CHECK("addresses that are not ours are not found")
	{
		EXPECT_EQUAL(take(0, &entry), -ENOENT);
		EXPECT_EQUAL(take(0x1234, &entry), -ENOENT);
	}

	CHECK("an address that the driver gives again frees what stood there")
	{
		EXPECT_EQUAL(ledger_reserve(&card, 60 * MIB, &charge), 0);
		commit(&charge, address_of(1));
		EXPECT_EQUAL(ledger_reserve(&card, 20 * MIB, &charge), 0);
		commit(&charge, address_of(1));
		EXPECT_EQUAL(used_bytes(), 20 * MIB);
		EXPECT_EQUAL(take(address_of(1), &entry), 0);
		ledger_release(&entry);
	}

	CHECK("an unnamed device has no memory to give")
	{
		EXPECT_EQUAL(ledger_reserve(&unnamed, 1, &charge), -ENOMEM);
	}

	check_oversubscribed();
	test_set_limit(100 * MIB);
	check_many();
	check_references();
	check_contexts();
	check_changes();
	CHECK("threads leave no charge behind")
	{
		check_threads();
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("a forked child starts with an empty ledger")
	{
		EXPECT_EQUAL(ledger_reserve(&card, MIB, &charge), 0);
		commit(&charge, address_of(1));
		pid_t child = fork();
		if (child == 0)
			_exit(take(address_of(1), &entry) == -ENOENT ? 0 : 1);
		int status = -1;
		waitpid(child, &status, 0);
		EXPECT_EQUAL(status, 0);
		EXPECT_EQUAL(used_bytes(), MIB);
	}

	test_remove_container();
	return test_report();
}
