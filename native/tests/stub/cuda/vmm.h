/*
 * Memory in two steps: physical allocations (cuMemCreate) that are mapped into reserved addresses.
 *
 * An allocation is held by its handle and by each of its mappings, and counts until the last of
 * them is gone. One that can be exported is a file in memory, which importers share; what is
 * imported counts for its exporter only. In the exporting process it is one more handle, which keeps the first's
 * memory.
 */
#pragma once

#include "object.h"
#include "space.h"

struct allocation {
	struct object object; /* OBJECT_ALLOCATION; under space_lock: */
	CUmemAllocationProp props;
	uint64_t bytes;
	CUdevice device; /* that it counts on; -1: none (host, imported, multicast) */
	int fd;          /* -1: not exportable */
	int handles;     /* cuMemCreate and cuMemRetainAllocationHandle less cuMemRelease */
	int mappings;
	struct allocation *of; /* imported where it was made: what it is another handle of */
};

/* A new allocation with one handle; `fd` becomes its own. */
CUresult allocation_new(const CUmemAllocationProp *props, uint64_t bytes, CUdevice device, int fd,
			CUmemGenericAllocationHandle *ret_handle);

/* NULL when there is no such handle. */
struct allocation *allocation_of(CUmemGenericAllocationHandle handle);

/* Under space_lock: give back what neither handle nor mapping holds. */
void allocation_end_if_unused(struct allocation *allocation);

/* Is the whole range mapped with access? Under space_lock. */
bool vmm_holds(const struct span *span, uint64_t address, uint64_t bytes);
