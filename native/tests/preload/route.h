/*
 * The ways to take device memory, as one table: for programs that try each of them. Linked to the
 * simulated driver.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda_api.h"

/* What a route handed out; which fields are used is the route's own business. */
struct taken {
	uint64_t address, handle;
	size_t bytes; /* asked for */
};

struct route {
	const char *name;
	CUresult (*take)(size_t bytes, struct taken *ret_taken);
	CUresult (*give)(const struct taken *taken);
};

extern const struct route routes[];
/* Behind these comes external memory, which the simulated driver does not count: it is its maker's. */
extern const size_t route_count;

/* The route with this name; ends the program when there is none. */
const struct route *route_named(const char *name);

/* cuInit and the primary context of device 0. */
void route_start(void);

/* What this process is charged in the usage page, and what the simulated driver gave it. */
uint64_t charged_bytes(void);
/* Of that, what cannot leave an oversubscribed device. */
uint64_t fixed_bytes(void);
uint64_t physical_bytes(void);
