/*
 * Holds simulated device memory, as a CUDA process does, for tests of the shared account:
 *
 *     hold_memory UUID BYTES CAPACITY_BYTES
 *
 * prints "0" or the negative errno of the reservation, then waits until its input ends. A line
 * on its input "- BYTES" gives back, "+ BYTES" takes more; each is answered the same way.
 */
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void answer(int r)
{
	printf("%d\n", r);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct state state;
	char sign;
	uint64_t bytes;

	if (argc != 4) {
		fprintf(stderr, "usage: hold_memory UUID BYTES CAPACITY_BYTES\n");
		return 2;
	}
	uint64_t capacity = strtoull(argv[3], NULL, 10);
	int r = state_open(state_path(NULL), true, &state);

	if (r == 0)
		r = state_reserve(&state, argv[1], strtoull(argv[2], NULL, 10), capacity);
	answer(r);
	while (scanf(" %c %" SCNu64, &sign, &bytes) == 2) {
		if (sign == '-')
			state_release(&state, argv[1], bytes);
		answer(sign == '-' ? 0 : state_reserve(&state, argv[1], bytes, capacity));
	}
	return 0;
}
