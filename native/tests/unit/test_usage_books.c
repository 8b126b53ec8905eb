/* usage_books.c: racers for the last room, each in a slot of its own or two in one. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "test.h"
#include "usage_books.h"
#include "usage_slots.h"

#define RACERS 6
#define ROUNDS 20000
#define LIMIT 100u

static struct hamid_usage *page;
static _Atomic uint64_t held; /* by all together, as the racers know it */
static _Atomic uint64_t most;
static _Atomic long quick, careful, refused;

static int claim(uint32_t slot, uint64_t size_bytes)
{
	const struct usage_claim what = {.size_bytes = size_bytes, .limit_bytes = LIMIT};
	if (usage_claim_quickly(page, slot, &what)) {
		atomic_fetch_add(&quick, 1);
		return 0;
	}
	int r = usage_try_claim(page, slot, &what);
	atomic_fetch_add(r == 0 ? &careful : &refused, 1);
	return r;
}

static void give_back(uint32_t slot, uint64_t size_bytes)
{
	__atomic_fetch_sub(&usage_slot_at(page, slot)->cells[0].used_bytes, size_bytes,
			   __ATOMIC_SEQ_CST);
}

static void *race(void *argument)
{
	const uint32_t racer = *(const uint32_t *)argument;
	const uint32_t slot = racer % (page->slots_high_water);
	uint64_t dice = racer + 1;
	for (int i = 0; i < ROUNDS; i++) {
		dice = dice * 6364136223846793005ull + 1442695040888963407ull;
		const uint64_t size = 20 + (dice >> 33) % 30;
		if (claim(slot, size) < 0)
			continue;
		const uint64_t now = atomic_fetch_add(&held, size) + size;
		uint64_t before = atomic_load(&most);
		while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
			;
		atomic_fetch_sub(&held, size);
		give_back(slot, size);
	}
	return NULL;
}

static void run(uint32_t slots)
{
	pthread_t threads[RACERS];
	uint32_t numbers[RACERS];
	page->slots_high_water = slots;
	atomic_store(&most, 0);
	for (uint32_t i = 0; i < RACERS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, race, &numbers[i]))
			exit(2);
	}
	for (uint32_t i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	EXPECT(atomic_load(&most) <= LIMIT);
	EXPECT_EQUAL(usage_used_bytes(page, 0), 0);
	for (uint32_t i = 0; i < slots; i++)
		EXPECT_EQUAL(usage_slot_at(page, i)->cells[0].pending_bytes, 0);
}

int main(void)
{
	page = aligned_alloc(64, HAMID_USAGE_BYTES);
	if (!page)
		return 2;
	memset(page, 0, HAMID_USAGE_BYTES);

	CHECK("alone, all of the limit may be had, to the byte")
	{
		page->slots_high_water = 1;
		EXPECT_EQUAL(claim(0, LIMIT + 1), -ENOMEM);
		EXPECT_EQUAL(claim(0, LIMIT - 1), 0);
		EXPECT_EQUAL(claim(0, 2), -ENOMEM);
		EXPECT_EQUAL(claim(0, 1), 0);
		EXPECT_EQUAL(claim(0, 1), -ENOMEM);
		EXPECT_EQUAL(claim(0, 0), 0);
		give_back(0, LIMIT);
		EXPECT_EQUAL(atomic_load(&quick), 3);
	}

	CHECK("threads of one process never hold more than the limit")
	{
		run(1);
	}

	CHECK("neither do a few processes")
	{
		run(3);
		EXPECT(atomic_load(&quick) > 0);
	}

	CHECK("nor many, who only go the careful way")
	{
		atomic_store(&quick, 0);
		run(RACERS);
		EXPECT_EQUAL(atomic_load(&quick), 0);
		EXPECT(atomic_load(&careful) > 0);
	}

	CHECK("nonsense in another's cell leaves no room")
	{
		usage_slot_at(page, 1)->cells[0].used_bytes = UINT64_MAX;
		EXPECT_EQUAL(claim(0, 1), -ENOMEM);
		EXPECT(usage_used_bytes(page, 0) == UINT64_MAX);
	}
	free(page);
	return test_report();
}
