/*
 * Device memory as the driver manages it: taken from the device in regions of whole grains, given
 * out in blocks of whole units.
 *
 * A context has one heap for what cuMemAlloc gives: 2 MiB at a time, which small blocks share. A
 * memory pool has one of 32 MiB at a time, and keeps regions that are empty until it is trimmed.
 *
 * Threads: under space_lock.
 */
#pragma once

#include "space.h"

#define HEAP_UNIT 512ull
#define HEAP_GRAIN (2ull << 20)
#define HEAP_POOL_GRAIN (32ull << 20)

struct region;

struct heap {
	CUdevice device;
	uint64_t grain;
	uint64_t shared_at_most; /* bigger blocks get a region of their own */
	uint64_t max_bytes;      /* 0: what the device has */
	bool keeps_empty;
	struct region *first, *last;
	uint64_t reserved, used; /* bytes: in regions, in blocks */
	uint64_t reserved_high, used_high;
	struct heap *next_keeper; /* heaps that keep empty regions */
};

/*
 * A block of `bytes`; `context` and `pool` say whose it is, `map_flags` are for mmap. Results as of
 * cuMemAlloc.
 */
CUresult heap_take(struct heap *heap, uint64_t bytes, int map_flags, CUcontext context,
		   CUmemoryPool pool, struct block **ret_block);

/* Give a block back; an empty region goes back to the device unless the heap keeps them. */
void heap_give(struct block *block);

/* Give empty regions back until at most `keep_bytes` are reserved. */
void heap_trim(struct heap *heap, uint64_t keep_bytes);

/* A heap that keeps empty regions is known from its making to its end, to be asked when memory runs out. */
void heap_keeper_begin(struct heap *heap);
void heap_keeper_end(struct heap *heap);

/*
 * Take memory of the device. When it refuses, managed memory is pushed to the host and what pools
 * keep unused is given back, as the real driver does before it says that there is none.
 */
CUresult heap_take_of_device(CUdevice device, uint64_t bytes);

/* Give everything back, blocks too. */
void heap_drop(struct heap *heap);

/* The heap that a block is in. */
struct heap *heap_of(const struct block *block);
