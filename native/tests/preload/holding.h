/*
 * Ways to hold memory, of which it is known what each is charged: the routes (route.h), and some that are more than one
 * call to take or to give.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "route.h"

#define KIB 1024ull
#define GRAIN (2048 * KIB)
#define LARGEST (20 * GRAIN)

struct item;

struct kind {
	const char *name; /* of a route, but where it has its own calls */
	CUresult (*take)(size_t bytes, struct item *item);
	CUresult (*give)(struct item *item);
	const char *take_fails[4]; /* which calls may be made to fail: then nothing has changed */
	const char *give_fails;
	uint64_t unit;      /* that its charge is whole of; 0: it says its charge, or has none of its own */
	bool is_of_context; /* and gone with it */
	bool is_whole;      /* whole grains only */
};

extern const struct kind kinds[];
extern const size_t kind_count;

struct item {
	const struct kind *kind;
	struct taken taken;
	CUdevice device;
	int place;         /* the model's: in which context */
	uint64_t charge;   /* for itself */
	CUmemoryPool pool; /* that it alone is in */
	unsigned int parts; /* bits of a range that is held in parts; 0 when all is given */
};

/* The simulated driver's: the next call of this name fails (NULL: none does). Was one still to? */
extern bool hamid_sim_fail_next(const char *symbol, CUresult result);

/* Sizes are whole grains, or any. */
extern bool is_odd;

/* Below `sides`; the same numbers in each run with this seed. */
void seed_dice(uint64_t seed);
uint64_t roll(uint64_t sides);

uint64_t whole(uint64_t bytes, uint64_t unit);
uint64_t reserved_by(CUmemoryPool pool);
