/* See heap.h. The free parts of a region are a list sorted by address; the first that fits is cut. */
#include "heap.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "managed.h"

struct extent {
	uint64_t address, bytes;
	struct extent *next;
};

struct region {
	struct span span; /* owner is the region */
	struct heap *heap;
	struct extent *free;
	uint64_t free_bytes;
	bool is_shared;
	struct block *blocks;
	struct region *previous, *next;
};

static uint64_t round_up(uint64_t bytes, uint64_t grain)
{
	return (bytes + grain - 1) / grain * grain;
}

static void link_first(struct heap *heap, struct region *region)
{
	region->previous = NULL;
	region->next = heap->first;
	*(region->next ? &region->next->previous : &heap->last) = region;
	heap->first = region;
}

/* Full regions stand at the end, so that a search ends early. */
static void link_last(struct heap *heap, struct region *region)
{
	region->previous = heap->last;
	region->next = NULL;
	*(region->previous ? &region->previous->next : &heap->first) = region;
	heap->last = region;
}

static void unlink_region(struct region *region)
{
	*(region->previous ? &region->previous->next : &region->heap->first) = region->next;
	*(region->next ? &region->next->previous : &region->heap->last) = region->previous;
}

/* Of the host (-1) nothing is counted. */
static void give_back(CUdevice device, uint64_t bytes)
{
	if (device >= 0)
		sim_give_back(sim_device(device), bytes);
}

static void region_free(struct region *region)
{
	struct heap *heap = region->heap;

	while (region->free) {
		struct extent *next = region->free->next;

		free(region->free);
		region->free = next;
	}
	span_remove(&region->span);
	munmap((void *)(uintptr_t)region->span.address, region->span.bytes);
	give_back(heap->device, region->span.bytes);
	heap->reserved -= region->span.bytes;
	free(region);
}

static struct heap *keepers; /* heaps that keep empty regions */

static struct region *region_new(struct heap *heap, uint64_t bytes, int map_flags)
{
	if (heap->max_bytes && bytes > heap->max_bytes - heap->reserved)
		return NULL;
	if (heap_take_of_device(heap->device, bytes) != CUDA_SUCCESS)
		return NULL;
	struct region *region = calloc(1, sizeof *region);
	struct extent *whole = malloc(sizeof *whole);
	void *memory = space_map(bytes, map_flags ? 0 : 4096, PROT_READ | PROT_WRITE, map_flags);

	if (region && whole && memory) {
		uint64_t address = (uint64_t)(uintptr_t)memory;

		*whole = (struct extent){.address = address, .bytes = bytes};
		*region = (struct region){.span = {.address = address,
						   .bytes = bytes,
						   .kind = SPAN_HEAP,
						   .device = heap->device,
						   .owner = region},
					  .heap = heap,
					  .free = whole,
					  .free_bytes = bytes};
		if (span_add(&region->span)) {
			heap->reserved += bytes;
			if (heap->reserved > heap->reserved_high)
				heap->reserved_high = heap->reserved;
			return region;
		}
	}
	if (memory)
		munmap(memory, bytes);
	free(region);
	free(whole);
	give_back(heap->device, bytes);
	return NULL;
}

/* Cut `rounded` bytes from a region; 0 when no part is big enough. */
static uint64_t cut(struct region *region, uint64_t rounded)
{
	if (region->free_bytes < rounded)
		return 0;
	for (struct extent **at = &region->free; *at; at = &(*at)->next) {
		struct extent *extent = *at;

		if (extent->bytes < rounded)
			continue;
		uint64_t address = extent->address;

		extent->address += rounded;
		extent->bytes -= rounded;
		region->free_bytes -= rounded;
		if (extent->bytes == 0) {
			*at = extent->next;
			free(extent);
		}
		return address;
	}
	return 0;
}

/* The opposite; neighbours grow together. Lost when there is no memory for the note. */
static void paste(struct region *region, uint64_t address, uint64_t rounded)
{
	struct extent *before = NULL, *after = region->free;

	region->free_bytes += rounded;
	for (; after && after->address < address; after = after->next)
		before = after;
	if (before && before->address + before->bytes == address) {
		before->bytes += rounded;
		if (after && before->address + before->bytes == after->address) {
			before->bytes += after->bytes;
			before->next = after->next;
			free(after);
		}
		return;
	}
	if (after && address + rounded == after->address) {
		after->address = address;
		after->bytes += rounded;
		return;
	}
	struct extent *extent = malloc(sizeof *extent);

	if (!extent)
		return;
	*extent = (struct extent){.address = address, .bytes = rounded, .next = after};
	*(before ? &before->next : &region->free) = extent;
}

static struct region *region_with_room(struct heap *heap, uint64_t rounded, uint64_t *ret_address)
{
	struct region *region = heap->first;

	while (region && region->free_bytes > 0) {
		struct region *next = region->next;

		if (region->is_shared) {
			*ret_address = cut(region, rounded);
			if (*ret_address)
				return region;
		}
		region = next;
	}
	return NULL;
}

static struct region *region_for(struct heap *heap, uint64_t rounded, int map_flags,
				 uint64_t *ret_address)
{
	bool is_shared = rounded <= heap->shared_at_most && !map_flags;
	struct region *region = is_shared ? region_with_room(heap, rounded, ret_address) : NULL;

	if (region)
		return region;
	region = region_new(heap, round_up(rounded, heap->grain), map_flags);
	if (!region && heap->grain > HEAP_GRAIN)
		region = region_new(heap, round_up(rounded, HEAP_GRAIN), map_flags);
	if (!region)
		return NULL;
	region->is_shared = is_shared;
	*ret_address = cut(region, rounded);
	link_first(heap, region);
	return region;
}

CUresult heap_take(struct heap *heap, uint64_t bytes, int map_flags, CUcontext context,
		   CUmemoryPool pool, struct block **ret_block)
{
	uint64_t address;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > UINT64_MAX / 4)
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t rounded = round_up(bytes, HEAP_UNIT);
	struct block *block = malloc(sizeof *block);
	struct region *region = block ? region_for(heap, rounded, map_flags, &address) : NULL;

	if (!region) {
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*block = (struct block){.address = address,
				.bytes = bytes,
				.rounded = rounded,
				.span = &region->span,
				.context = context,
				.pool = pool,
				.next = region->blocks};
	if (region->blocks)
		region->blocks->previous = block;
	region->blocks = block;
	heap->used += rounded;
	if (heap->used > heap->used_high)
		heap->used_high = heap->used;
	if (region->free_bytes == 0 || !region->is_shared) {
		unlink_region(region);
		link_last(heap, region);
	}
	if (!block_add(block)) {
		heap_give(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_block = block;
	return CUDA_SUCCESS;
}

struct heap *heap_of(const struct block *block)
{
	return ((struct region *)block->span->owner)->heap;
}

void heap_give(struct block *block)
{
	struct region *region = block->span->owner;
	struct heap *heap = region->heap;

	if (block_find(block->address) == block)
		block_remove(block);
	*(block->previous ? &block->previous->next : &region->blocks) = block->next;
	if (block->next)
		block->next->previous = block->previous;
	paste(region, block->address, block->rounded);
	heap->used -= block->rounded;
	free(block);
	unlink_region(region);
	if (region->free_bytes == region->span.bytes && !heap->keeps_empty)
		region_free(region);
	else
		link_first(heap, region);
}

void heap_trim(struct heap *heap, uint64_t keep_bytes)
{
	for (struct region *region = heap->first; region && heap->reserved > keep_bytes;) {
		struct region *next = region->next;

		if (region->free_bytes == region->span.bytes) {
			unlink_region(region);
			region_free(region);
		}
		region = next;
	}
}

void heap_keeper_begin(struct heap *heap)
{
	heap->keeps_empty = true;
	heap->next_keeper = keepers;
	keepers = heap;
}

void heap_keeper_end(struct heap *heap)
{
	for (struct heap **at = &keepers; *at; at = &(*at)->next_keeper)
		if (*at == heap) {
			*at = heap->next_keeper;
			return;
		}
}

CUresult heap_take_of_device(CUdevice device, uint64_t bytes)
{
	CUresult cr = device < 0 ? CUDA_SUCCESS : sim_take(sim_device(device), bytes);

	if (cr == CUDA_SUCCESS)
		return cr;
	managed_evict(device, bytes);
	for (struct heap *heap = keepers; heap; heap = heap->next_keeper)
		if (heap->device == device)
			heap_trim(heap, 0);
	return sim_take(sim_device(device), bytes);
}

void heap_drop(struct heap *heap)
{
	while (heap->first) {
		struct region *region = heap->first;

		while (region->blocks) {
			struct block *block = region->blocks;

			region->blocks = block->next;
			block_remove(block);
			free(block);
		}
		unlink_region(region);
		region_free(region);
	}
	heap->used = 0;
}
