/* See space.h. Spans stand sorted in an array, blocks in a hash table. */
#include "space.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap.h"
#include "table.h"
#include "vmm.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct span **spans;
static size_t span_count, span_capacity;
static struct table blocks;

void space_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void space_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

void *space_map(uint64_t bytes, uint64_t alignment, int protection, int map_flags)
{
	uint64_t slack = alignment > 4096 ? alignment : 0;

	if (bytes > UINT64_MAX / 2 - slack)
		return NULL;
	char *start = mmap(NULL, bytes + slack, protection,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | map_flags, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	if (slack) {
		uint64_t before = (alignment - (uintptr_t)start % alignment) % alignment;

		if (before)
			munmap(start, before);
		if (slack > before)
			munmap(start + before + bytes, slack - before);
		start += before;
	}
	return start;
}

/* How many spans begin at or before the address. */
static size_t rank(uint64_t address)
{
	size_t low = 0, high = span_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spans[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool span_add(struct span *span)
{
	if (span_count == span_capacity) {
		size_t capacity = span_capacity ? span_capacity * 2 : 256;
		struct span **more = realloc(spans, capacity * sizeof *more);

		if (!more)
			return false;
		spans = more;
		span_capacity = capacity;
	}
	size_t at = rank(span->address);

	memmove(&spans[at + 1], &spans[at], (span_count - at) * sizeof *spans);
	spans[at] = span;
	span_count++;
	return true;
}

void span_remove(const struct span *span)
{
	size_t after = rank(span->address);

	if (after == 0 || spans[after - 1] != span)
		return;
	memmove(&spans[after - 1], &spans[after], (span_count - after) * sizeof *spans);
	span_count--;
}

struct span *span_at(uint64_t address)
{
	size_t after = rank(address);
	struct span *span = after ? spans[after - 1] : NULL;

	return span && address - span->address < span->bytes ? span : NULL;
}

struct span *span_by_index(size_t i)
{
	return i < span_count ? spans[i] : NULL;
}

bool block_add(struct block *block)
{
	return table_add(&blocks, block->address, block);
}

struct block *block_find(uint64_t address)
{
	return table_find(&blocks, address);
}

void block_remove(const struct block *block)
{
	table_remove(&blocks, block->address);
}

static bool find_place(uint64_t address, struct place *ret_place)
{
	const struct span *span = span_at(address);

	if (!span)
		return false;
	*ret_place = (struct place){.address = span->address,
				    .bytes = span->bytes,
				    .kind = span->kind,
				    .device = span->device,
				    .context = span->context};
	if (span->kind != SPAN_HEAP)
		return true;
	/* Blocks begin at multiples of the heap's unit; look back for the one that holds it. */
	for (uint64_t at = address - address % HEAP_UNIT; at >= span->address; at -= HEAP_UNIT) {
		const struct block *block = block_find(at);

		if (!block)
			continue;
		if (address - at >= block->bytes)
			return false;
		ret_place->address = at;
		ret_place->bytes = block->bytes;
		ret_place->context = block->context;
		ret_place->pool = block->pool;
		return true;
	}
	return false;
}

bool space_place(uint64_t address, struct place *ret_place)
{
	space_lock();
	bool is_found = find_place(address, ret_place);

	space_unlock();
	return is_found;
}

bool space_holds(uint64_t address, uint64_t bytes)
{
	space_lock();
	const struct span *span = span_at(address);
	bool is_held = span && bytes <= span->bytes && address - span->address <= span->bytes - bytes;

	if (is_held && span->kind == SPAN_RESERVED)
		is_held = vmm_holds(span, address, bytes);

	space_unlock();
	return is_held;
}
