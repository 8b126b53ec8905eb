/*
 * The address space that programs see: spans, and blocks in them.
 *
 * Terms: span = a range that was mapped at once; block = what one call gave out and one call takes
 * back. A span of device memory holds the blocks of one heap (heap.h).
 *
 * Threads: everything here under space_lock.
 */
#pragma once

#include "sim.h"

enum span_kind {
	SPAN_HEAP,     /* device memory, owner is a struct region */
	SPAN_MANAGED,  /* owner is a struct managed */
	SPAN_HOST,     /* pinned or registered host memory; owner unused */
	SPAN_RESERVED, /* addresses for cuMemMap, owner is a struct reservation */
	SPAN_GRAPH,    /* owner is a struct graph_block */
	SPAN_FOREIGN,  /* memory of another process or driver, opened here */
};

struct span {
	uint64_t address, bytes;
	enum span_kind kind;
	CUdevice device; /* -1: none */
	CUcontext context;
	void *owner;
};

struct block {
	uint64_t address, bytes; /* as asked for */
	uint64_t rounded;        /* as taken from the heap */
	struct span *span;
	CUcontext context; /* NULL: of a pool, outlives contexts */
	CUmemoryPool pool;
	struct block *previous, *next; /* of the same region */
};

void space_lock(void);
void space_unlock(void);

/* Host pages, committed where they are written. NULL when there are none. */
void *space_map(uint64_t bytes, uint64_t alignment, int protection, int map_flags);

bool span_add(struct span *span);
void span_remove(const struct span *span);

/* The span that holds this address, or NULL. */
struct span *span_at(uint64_t address);
struct span *span_by_index(size_t i);

bool block_add(struct block *block);
struct block *block_find(uint64_t address);
void block_remove(const struct block *block);

/*
 * The block (or, outside heaps, span) that holds an address: false if none does. Takes the lock
 * itself.
 */
struct place {
	uint64_t address, bytes;
	enum span_kind kind;
	CUdevice device;
	CUcontext context;
	CUmemoryPool pool;
};
bool space_place(uint64_t address, struct place *ret_place);

/* Does one span hold the whole range, as device memory does for copies? Takes the lock itself. */
bool space_holds(uint64_t address, uint64_t bytes);
