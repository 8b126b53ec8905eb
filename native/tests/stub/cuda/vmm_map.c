/* Reserved addresses and what is mapped there: see vmm.h. */
#include <stdlib.h>
#include <sys/mman.h>

#include "stream.h"
#include "vmm.h"

struct mapping {
	uint64_t address, bytes;
	struct allocation *allocation;
	bool has_access;
	struct mapping *next; /* by address */
};

struct reservation {
	struct span span;
	struct mapping *mappings;
};

static struct reservation *reservation_at(uint64_t address)
{
	struct span *span = span_at(address);

	return span && span->kind == SPAN_RESERVED ? span->owner : NULL;
}

static bool is_inside(const struct reservation *reservation, uint64_t address, uint64_t bytes)
{
	return address >= reservation->span.address && bytes <= reservation->span.bytes &&
	       address - reservation->span.address <= reservation->span.bytes - bytes;
}

bool vmm_holds(const struct span *span, uint64_t address, uint64_t bytes)
{
	const struct reservation *reservation = span->owner;
	uint64_t at = address;

	for (const struct mapping *mapping = reservation->mappings; mapping; mapping = mapping->next)
		if (at >= mapping->address && at - mapping->address < mapping->bytes &&
		    mapping->has_access)
			at = mapping->address + mapping->bytes;
	return at >= address + bytes;
}

SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
					CUdeviceptr wanted, unsigned long long flags)
{
	(void)wanted; /* a hint only */
	SIM_ENTER();
	if (!address || bytes == 0 || bytes % HEAP_GRAIN || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	struct reservation *made = calloc(1, sizeof *made);
	uint64_t grain = alignment > HEAP_GRAIN ? alignment : HEAP_GRAIN;
	void *memory = space_map(bytes, grain, PROT_NONE, 0);
	bool is_done = false;

	if (made && memory) {
		made->span = (struct span){.address = (uint64_t)(uintptr_t)memory,
					   .bytes = bytes,
					   .kind = SPAN_RESERVED,
					   .device = -1,
					   .owner = made};
		space_lock();
		is_done = span_add(&made->span);
		space_unlock();
	}
	if (!is_done) {
		if (memory)
			munmap(memory, bytes);
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*address = made->span.address;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	SIM_ENTER();
	space_lock();
	struct reservation *reservation = reservation_at(address);
	bool is_it = reservation && reservation->span.address == address &&
		     reservation->span.bytes == bytes && !reservation->mappings;

	if (is_it)
		span_remove(&reservation->span);
	space_unlock();
	if (!is_it)
		return CUDA_ERROR_INVALID_VALUE;
	munmap((void *)(uintptr_t)address, bytes);
	free(reservation);
	return CUDA_SUCCESS;
}

static CUresult map(uint64_t address, uint64_t bytes, uint64_t offset, struct allocation *allocation)
{
	struct reservation *reservation = reservation_at(address);

	if (!reservation || !is_inside(reservation, address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	struct mapping **at = &reservation->mappings;

	for (; *at && (*at)->address < address + bytes; at = &(*at)->next)
		if ((*at)->address + (*at)->bytes > address)
			return CUDA_ERROR_ALREADY_MAPPED;
	struct mapping *mapping = malloc(sizeof *mapping);

	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (allocation->fd >= 0 &&
	    mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
		 allocation->fd, (off_t)offset) == MAP_FAILED) {
		free(mapping);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*mapping = (struct mapping){
		.address = address, .bytes = bytes, .allocation = allocation, .next = *at};
	*at = mapping;
	allocation->mappings++;
	reservation->span.device = allocation->props.location.id;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
			     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	SIM_ENTER();
	struct allocation *allocation = allocation_of(handle);

	if (!allocation || flags || bytes == 0 || address % HEAP_GRAIN || bytes % HEAP_GRAIN ||
	    offset % HEAP_GRAIN || offset > allocation->bytes || bytes > allocation->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	CUresult cr = map(address, bytes, offset, allocation);

	space_unlock();
	return cr;
}

/* The range must be made of whole mappings, without gaps. */
static bool is_whole(const struct reservation *reservation, uint64_t address, uint64_t bytes)
{
	uint64_t at = address;

	for (const struct mapping *mapping = reservation->mappings; mapping; mapping = mapping->next)
		if (mapping->address == at && at < address + bytes)
			at += mapping->bytes;
	return at == address + bytes;
}

static CUresult unmap(uint64_t address, uint64_t bytes)
{
	struct reservation *reservation = reservation_at(address);

	if (!reservation || !is_inside(reservation, address, bytes) ||
	    !is_whole(reservation, address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (struct mapping **at = &reservation->mappings; *at;) {
		struct mapping *mapping = *at;

		if (mapping->address < address || mapping->address >= address + bytes) {
			at = &mapping->next;
			continue;
		}
		*at = mapping->next;
		mapping->allocation->mappings--;
		allocation_end_if_unused(mapping->allocation);
		free(mapping);
	}
	mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	SIM_ENTER();
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	CUresult cr = unmap(address, bytes);

	space_unlock();
	return cr;
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
				   const CUmemAccessDesc *access, size_t count)
{
	SIM_ENTER();
	if (!access || count == 0 || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	struct reservation *reservation = reservation_at(address);
	bool is_good = reservation && is_inside(reservation, address, bytes) &&
		       is_whole(reservation, address, bytes);

	for (struct mapping *mapping = is_good ? reservation->mappings : NULL; mapping;
	     mapping = mapping->next)
		if (mapping->address >= address && mapping->address < address + bytes)
			mapping->has_access = access[count - 1].flags != 0;
	if (is_good)
		mprotect((void *)(uintptr_t)address, bytes,
			 access[count - 1].flags ? PROT_READ | PROT_WRITE : PROT_NONE);
	space_unlock();
	return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				   CUdeviceptr address)
{
	SIM_ENTER();
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	const struct span *span = span_at(address);
	bool is_known = span && span->kind == SPAN_RESERVED;

	if (is_known)
		*flags = vmm_holds(span, address, 1) ? 3 : 0;
	space_unlock();
	return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The allocation behind an address gets one handle more. */
SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	uint64_t at = (uint64_t)(uintptr_t)address;
	CUresult cr = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER();
	if (!handle)
		return cr;
	space_lock();
	const struct reservation *reservation = reservation_at(at);
	struct mapping *mapping = reservation ? reservation->mappings : NULL;

	while (mapping && !(at >= mapping->address && at - mapping->address < mapping->bytes))
		mapping = mapping->next;
	if (mapping) {
		if (mapping->allocation->handles++ == 0)
			object_register(&mapping->allocation->object);
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)mapping->allocation;
		cr = CUDA_SUCCESS;
	}
	space_unlock();
	return cr;
}
