/*
 * The cap's arithmetic on words that anybody in the container can write. Input: due, now, cost, correction (8 bytes
 * each), rate (2 bytes). Clocks are below 2^62 and rates are not 0; the rest is anything.
 */
#include "throttle.h"

#include "fuzz.h"

static void check_word(uint64_t due_ns, uint64_t now_ns)
{
	MUST(due_ns <= now_ns + THROTTLE_DEBT_NS);
	MUST(due_ns + THROTTLE_BURST_NS >= now_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct fuzz_input input = {bytes, length};
	const uint64_t due_ns = fuzz_take(&input, 8), now_ns = fuzz_take(&input, 8) >> 2;
	const uint64_t cost_ns = fuzz_take(&input, 8), more_ns = fuzz_take(&input, 8);
	const uint64_t rate = 1 + fuzz_take(&input, 2);
	const struct throttle_verdict verdict = throttle_step(due_ns, now_ns, cost_ns, rate);
	check_word(verdict.due_ns, now_ns);
	MUST(verdict.wait_ns <= THROTTLE_DEBT_NS);
	MUST(!verdict.wait_ns || verdict.due_ns == now_ns + verdict.wait_ns);
	check_word(throttle_correct(due_ns, now_ns, (int64_t)more_ns, rate), now_ns);
	/* Time alone pays all of it. */
	const struct throttle_verdict later =
		throttle_step(verdict.due_ns, now_ns + THROTTLE_DEBT_NS, cost_ns, rate);
	MUST(later.wait_ns == 0);
	return 0;
}
