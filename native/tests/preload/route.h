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
	uint64_t address, handle, other;
	size_t bytes; /* asked for */
};

struct route {
	const char *name;
	CUresult (*take)(size_t bytes, struct taken *ret_taken);
	CUresult (*give)(const struct taken *taken);
};

extern const struct route routes[];
/*
 * Of these the simulated driver counts what is asked for, to the byte, where it is whole grains of 2 MiB. Behind them come
 * external memory, which is its maker's, and the calls of before CUDA 3.2, which have addresses of 32 bits.
 */
extern const size_t route_count;

/* Contexts, and what takes memory by way of them or of code (lib_route_context.c). */
extern const struct route context_routes[];
extern const size_t context_route_count;

/* The route with this name; ends the program when there is none. */
const struct route *route_named(const char *name);

/* Where the routes take: at first what route_start() makes. */
struct route_place {
	CUdevice device;
	CUstream stream;   /* of the context that is current */
	CUmemoryPool pool; /* made by the route of that name when it is first used */
};

extern struct route_place route_place;

/* cuInit and the primary context of device 0. */
void route_start(void);

/* What this process is charged in the usage page, and what the simulated driver gave it. */
uint64_t charged_bytes(void);
/* Of that, what cannot leave an oversubscribed device. */
uint64_t fixed_bytes(void);
uint64_t physical_bytes(void);

/* The same of one device only. */
uint64_t charged_bytes_of(const char *uuid);
uint64_t physical_bytes_of(const char *uuid);
