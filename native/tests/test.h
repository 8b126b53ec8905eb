/*
 * The whole harness: CHECK(name) { … } is a test, EXPECT a claim in it. A unit test is a program;
 * it ends with `return test_report();`.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_claims, test_failures;
static const char *test_name = "";

#define CHECK(name) for (test_name = (name); test_name; test_name = NULL)

#define EXPECT(claim) \
	do { \
		test_claims++; \
		if (!(claim)) { \
			test_failures++; \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, \
				test_name ? test_name : "", #claim); \
		} \
	} while (0)

#define EXPECT_EQUAL(found, expected) \
	do { \
		long long found_ = (long long)(found), expected_ = (long long)(expected); \
		test_claims++; \
		if (found_ != expected_) { \
			test_failures++; \
			fprintf(stderr, "%s:%d: %s: %s is %lld, not %lld\n", __FILE__, __LINE__, \
				test_name ? test_name : "", #found, found_, expected_); \
		} \
	} while (0)

static inline int test_report(void)
{
	if (test_failures)
		fprintf(stderr, "%d of %d claims failed\n", test_failures, test_claims);
	return test_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
