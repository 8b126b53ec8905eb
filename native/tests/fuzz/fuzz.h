/*
 * What the fuzzed readers have in common. A target is a function that may be given any bytes: what it says of them has to
 * hold, or it aborts. Two drivers call it: clang's libFuzzer, or driver.c where that is missing.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define MUST(claim) \
	do { \
		if (!(claim)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
			abort(); \
		} \
	} while (0)

/* The input as a source of numbers; when it has run out, they are 0. */
struct fuzz_input {
	const uint8_t *bytes;
	size_t length;
};

static inline uint64_t fuzz_take(struct fuzz_input *input, size_t count)
{
	uint64_t number = 0;
	const size_t has = count < input->length ? count : input->length;
	if (has)
		memcpy(&number, input->bytes, has);
	input->bytes += has;
	input->length -= has;
	return number;
}
