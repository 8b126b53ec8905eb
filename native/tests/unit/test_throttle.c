/* throttle.c, costs.c, budget.c: time is an argument, and nobody waits. */
#include "budget.h"
#include "costs.h"
#include "test.h"
#include "throttle.h"

#define MS 1000000ull
#define START (1000000 * MS)

/*
 * A tenant that always has work of `cost_ns` takes what it gets for `length_ns`; per mille of the
 * time. It sleeps too long by `late_ns`. Each launch is charged `charged_ns` and corrected later.
 */
static uint64_t used_per_mille(uint32_t percent, uint64_t cost_ns, uint64_t charged_ns,
			       uint64_t late_ns)
{
	const uint64_t length_ns = 20000 * MS;
	uint64_t due = 0, used_ns = 0, now = START;
	while (now < START + length_ns) {
		struct throttle_verdict verdict = throttle_step(due, now, charged_ns, 10 * percent);
		due = verdict.due_ns;
		if (verdict.wait_ns) {
			now += verdict.wait_ns + late_ns;
			continue;
		}
		due = throttle_correct(due, now, (int64_t)cost_ns - (int64_t)charged_ns, 10 * percent);
		used_ns += cost_ns;
		now += 1000; /* a launch takes the host a while */
	}
	return used_ns * 1000 / length_ns;
}

static void check_shares(void)
{
	static const uint32_t caps[] = {1, 10, 30, 50, 70, 99};
	static const uint64_t costs[] = {5000, MS / 10, MS, 10 * MS};
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
		for (size_t j = 0; j < sizeof costs / sizeof *costs; j++) {
			const uint64_t exact = caps[i] * 10;
			uint64_t used = used_per_mille(caps[i], costs[j], costs[j], 0);
			EXPECT(used >= exact - 2 && used <= exact + 3);
			used = used_per_mille(caps[i], costs[j], 3 * costs[j], 5 * MS);
			EXPECT(used >= exact - 2 && used <= exact + 3);
			used = used_per_mille(caps[i], costs[j], 1, 0);
			EXPECT(used >= exact - 2 && used <= exact + 3);
		}
}

int main(void)
{
	CHECK("a tenant gets its share, whatever was estimated, and however late it wakes")
	check_shares();

	CHECK("what was not used for long is lost")
	{
		uint64_t due = 0, started = 0;
		for (;; started++) {
			struct throttle_verdict verdict = throttle_step(due, START, MS, 500);
			due = verdict.due_ns;
			if (verdict.wait_ns)
				break;
		}
		EXPECT_EQUAL(started, THROTTLE_BURST_NS / (2 * MS) + 1);
	}

	CHECK("debt is bounded, and so is nonsense in the word")
	{
		struct throttle_verdict verdict = throttle_step(UINT64_MAX, START, MS, 10);
		EXPECT_EQUAL(verdict.wait_ns, THROTTLE_DEBT_NS);
		EXPECT_EQUAL(throttle_step(verdict.due_ns, START + THROTTLE_DEBT_NS, MS, 10).wait_ns, 0);
		verdict = throttle_step(START, START, UINT64_MAX, 10);
		EXPECT_EQUAL(verdict.due_ns, START + THROTTLE_DEBT_NS);
	}

	CHECK("work that waits is not charged")
	{
		EXPECT_EQUAL(throttle_step(START + 5, START, MS, 300).due_ns, START + 5);
		EXPECT_EQUAL(throttle_step(START + 5, START, MS, 300).wait_ns, 5);
	}

	CHECK("what was charged too much comes back, as far as credit goes")
	{
		EXPECT_EQUAL(throttle_correct(START + 10 * MS, START, -(int64_t)MS, 500), START + 8 * MS);
		EXPECT_EQUAL(throttle_correct(START, START, -1000 * (int64_t)MS, 500),
			     START - THROTTLE_BURST_NS);
	}

	CHECK("what was charged too little is paid for from the launch on, not from when that is found out")
	{
		const struct throttle_verdict launched = throttle_step(START, START, MS, 500);
		const uint64_t found_out = throttle_correct(launched.due_ns, START + 100 * MS, 99 * MS, 500);
		EXPECT_EQUAL(found_out, START + 200 * MS);
		EXPECT_EQUAL(throttle_correct(0, START, 5 * MS, 500), START - THROTTLE_BURST_NS);
		EXPECT_EQUAL(throttle_correct(UINT64_MAX, START, 5 * MS, 500), START + THROTTLE_DEBT_NS);
	}

	CHECK("a kind's cost is learnt, and follows")
	{
		int one, other;
		const uint64_t kind = costs_kind(&one, 132), larger = costs_kind(&one, 4096);
		EXPECT(kind != larger && kind != costs_kind(&other, 132));
		EXPECT_EQUAL(costs_kind(&one, 133), kind);
		EXPECT_EQUAL(costs_get(kind), 0);
		EXPECT_EQUAL(costs_first_ns(kind, 7), 0);
		EXPECT_EQUAL(costs_first_ns(kind, 9), 7);
		costs_learn(kind, 1000, COSTS_EXACTLY);
		EXPECT_EQUAL(costs_get(kind), 1000);
		costs_learn(kind, 2000, COSTS_EXACTLY);
		EXPECT_EQUAL(costs_get(kind), 1250);
		costs_learn(kind, 500, COSTS_AT_MOST);
		EXPECT_EQUAL(costs_get(kind), 500);
		costs_learn(kind, 660, COSTS_AT_MOST);
		EXPECT_EQUAL(costs_get(kind), 503);
		costs_learn(kind, 50 * MS, COSTS_ABOUT_AT_MOST);
		EXPECT_EQUAL(costs_get(kind), 511);
		costs_learn(kind, 311, COSTS_ABOUT_AT_MOST);
		EXPECT_EQUAL(costs_get(kind), 461);
		EXPECT_EQUAL(costs_get(larger), 0);
	}

	CHECK("what is about so much, a little more or less, seems neither cheaper nor dearer")
	{
		static const int noisy;
		const uint64_t kind = costs_kind(&noisy, 132);
		costs_learn(kind, 5000, COSTS_EXACTLY);
		for (int i = 0; i < 1000; i++)
			costs_learn(kind, i % 2 ? 5300 : 4700, COSTS_ABOUT_AT_MOST);
		EXPECT(costs_get(kind) > 4900 && costs_get(kind) < 5100);
	}

	CHECK("the shared word is charged and corrected")
	{
		struct hamid_budget budget = {0};
		EXPECT_EQUAL(budget_try(&budget, START, 1000 * MS, 500), 0);
		EXPECT_EQUAL(budget.waited_ns, 0);
		const uint64_t wait_ns = budget_try(&budget, START, MS, 500);
		EXPECT(wait_ns > 0 && wait_ns <= 2000 * MS);
		EXPECT(budget.waited_ns > 0);
		EXPECT_EQUAL(budget.charged_ns, 1000 * MS);
		budget_correct(&budget, -1000 * (int64_t)MS, 500);
		EXPECT_EQUAL(budget.charged_ns, 0);
		EXPECT_EQUAL(budget_try(&budget, budget_now_ns(), MS, 500), 0);
	}

	CHECK("a corrected rate may be over the whole, or tiny")
	{
		EXPECT_EQUAL(throttle_step(START, START, 10 * MS, 2000).due_ns, START + 5 * MS);
		EXPECT_EQUAL(throttle_step(START, START, MS, 1).due_ns, START + 1000 * MS);
	}

	CHECK("that somebody wants the device is said once in a while")
	{
		struct hamid_budget budget = {0};
		budget_want(&budget, START);
		EXPECT_EQUAL(budget.wanted_ns, START);
		budget_want(&budget, START + MS);
		EXPECT_EQUAL(budget.wanted_ns, START);
		budget_want(&budget, START + 3 * MS);
		EXPECT_EQUAL(budget.wanted_ns, START + 3 * MS);
	}

	CHECK("a kind that takes now this, now that, stays so for the longer the more often it is")
	{
		static const int erratic;
		const uint64_t kind = costs_kind(&erratic, 132);
		costs_be_erratic(kind);
		EXPECT(!costs_is_erratic(kind)); /* nothing is known of it */
		costs_learn(kind, 5000, COSTS_EXACTLY);
		for (uint64_t length = 4096; length <= 16 * 4096; length *= 4) {
			costs_be_erratic(kind);
			uint64_t measured = 0;
			for (; costs_is_erratic(kind) && measured < 1000000; measured++)
				costs_learn(kind, 5000, COSTS_EXACTLY);
			EXPECT_EQUAL(measured, length);
		}
	}
	return test_report();
}
