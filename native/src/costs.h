/*
 * What launches of each kind cost the last times: a moving average of GPU time.
 *
 * Terms: kind = a function and how large its grid is, in powers of two; or an executable graph.
 *
 * Threads: any; no lock. Kinds that fall on one place push each other out: then the next launch is
 * of an unknown kind, no more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define COSTS_UNKNOWN_NS 1000000u /* what is charged at least until something was measured */

/* `handle`: of the function or graph; `blocks`: 0 for a graph. Never 0. */
uint64_t costs_kind(const void *handle, uint64_t blocks);

/* The average; 0: never measured. */
uint32_t costs_get(uint64_t kind);

/*
 * Kinds of which one launch takes much longer than another, so that averages say nothing. One stays so for
 * thousands of launches that are measured, and each time that it turns out to be so again for four times as many.
 */
void costs_be_erratic(uint64_t kind);
bool costs_is_erratic(uint64_t kind);

/* When the first launch of a kind that is unknown yet was; 0: this is it. */
uint64_t costs_first_ns(uint64_t kind, uint64_t now_ns);

enum costs_word {
	COSTS_EXACTLY,
	COSTS_AT_MOST, /* the device may have waited in between */
	COSTS_ABOUT_AT_MOST, /* and a little of that was taken off */
};

/*
 * Something of this kind cost that much. Of what is a bound, the average follows quickly to below, slowly to above; but
 * to a little above as to below where the bound is what it is about.
 */
void costs_learn(uint64_t kind, uint64_t cost_ns, enum costs_word word);
