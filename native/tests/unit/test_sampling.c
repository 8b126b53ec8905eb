/* sampling.c: which short launches are measured. Time is an argument. */
#include "sampling.h"

#include "test.h"

#define US 1000ull
#define MS 1000000ull
#define LAUNCHES 100000

static uint64_t now_ns = MS;

/* So many launches `apart_ns` from each other; returns how many are drawn, and how many of them behind an even number of others. */
static unsigned int draw(int ordinal, uint64_t apart_ns, unsigned int *ret_even)
{
	unsigned int drawn = 0, behind = 0;
	*ret_even = 0;
	for (int i = 0; i < LAUNCHES; i++, behind++) {
		now_ns += apart_ns;
		if (!sampling_is_drawn(ordinal, 1, now_ns))
			continue;
		drawn++;
		*ret_even += behind % 2 == 0;
		behind = 0;
	}
	return drawn;
}

int main(void)
{
	unsigned int even;

	CHECK("where launches are far apart each is measured")
	EXPECT(draw(0, MS, &even) >= LAUNCHES - 1);

	CHECK("of many short ones one is each half millisecond or so, and nobody can tell which")
	{
		const unsigned int drawn = draw(1, 5 * US, &even);
		EXPECT(drawn > 800 && drawn < 1200);
		EXPECT(even > drawn / 3 && even < drawn / 3 * 2);
	}

	CHECK("who launches the more since the last look has it taken into account")
	{
		unsigned int drawn = 0;
		for (int i = 0; i < 1000; i++) {
			now_ns += 500 * US;
			drawn += sampling_is_drawn(2, 100, now_ns);
			EXPECT(sampling_left() <= 2 * 4096);
		}
		EXPECT(drawn > 500);
	}

	CHECK("long ones are found among as many short ones as they are rare, wherever they are")
	{
		unsigned int found = 0;
		for (int i = 0; i < LAUNCHES; i++) {
			const bool is_long = i % 200 == 199;
			now_ns += is_long ? 20 * MS : 5 * US;
			found += sampling_is_drawn(3, 1, now_ns) && is_long;
		}
		EXPECT(found > 30);
	}

	CHECK("a device that is none is measured by nobody")
	EXPECT(!sampling_is_drawn(-1, 1, now_ns) && !sampling_is_drawn(64, 1, now_ns));
	return test_report();
}
