/* See managed.h. */
#include "managed.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "stream.h"

#define ATTACH_GLOBAL 1
#define ATTACH_HOST 2

struct managed {
	struct span span;
	CUdevice resident_on; /* -1: on the host */
	struct managed *next;
};

static struct managed *all; /* under space_lock */

static void leave(struct managed *managed)
{
	if (managed->resident_on >= 0)
		sim_give_back(sim_device(managed->resident_on), managed->span.bytes);
	managed->resident_on = -1;
}

static struct managed *find(uint64_t address)
{
	struct span *span = span_at(address);

	return span && span->kind == SPAN_MANAGED ? span->owner : NULL;
}

static void drop(struct managed **at)
{
	struct managed *managed = *at;

	*at = managed->next;
	leave(managed);
	span_remove(&managed->span);
	munmap((void *)(uintptr_t)managed->span.address, managed->span.bytes);
	free(managed);
}

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!address || bytes == 0 || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = stream_unsafe_call(context);

	if (cr != CUDA_SUCCESS)
		return cr;
	struct managed *managed = calloc(1, sizeof *managed);
	void *memory = space_map(bytes, 4096, PROT_READ | PROT_WRITE, 0);

	space_lock();
	if (managed && memory) {
		*managed = (struct managed){.span = {.address = (uint64_t)(uintptr_t)memory,
						     .bytes = bytes,
						     .kind = SPAN_MANAGED,
						     .device = context->device,
						     .context = context,
						     .owner = managed},
					    .resident_on = -1,
					    .next = all};
		if (span_add(&managed->span)) {
			all = managed;
			*address = managed->span.address;
			space_unlock();
			return CUDA_SUCCESS;
		}
	}
	space_unlock();
	if (memory)
		munmap(memory, bytes);
	free(managed);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult managed_free(uint64_t address)
{
	for (struct managed **at = &all; *at; at = &(*at)->next)
		if ((*at)->span.address == address) {
			drop(at);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

void managed_drop_context(CUcontext context)
{
	space_lock();
	for (struct managed **at = &all; *at;)
		if ((*at)->span.context == context)
			drop(at);
		else
			at = &(*at)->next;
	space_unlock();
}

void managed_evict(CUdevice device, uint64_t bytes)
{
	uint64_t given = 0;

	for (struct managed *managed = all; managed && given < bytes; managed = managed->next)
		if (managed->resident_on == device) {
			given += managed->span.bytes;
			leave(managed);
		}
}

void managed_move(uint64_t address, CUdevice device)
{
	space_lock();
	struct managed *managed = find(address);

	if (managed && managed->resident_on != device) {
		leave(managed);
		const struct sim_device *to = sim_device(device);

		if (to && sim_take(to, managed->span.bytes) != CUDA_SUCCESS) {
			managed_evict(device, managed->span.bytes);
			if (sim_take(to, managed->span.bytes) != CUDA_SUCCESS)
				to = NULL;
		}
		managed->resident_on = to ? device : -1;
	}
	space_unlock();
}

CUdevice managed_where(uint64_t address)
{
	space_lock();
	const struct managed *managed = find(address);
	CUdevice where = managed ? managed->resident_on : -2;

	space_unlock();
	return where;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUdevice to, CUstream stream)
{
	CUresult cr = stream_check(stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (to >= 0 && !sim_device(to))
		return CUDA_ERROR_INVALID_DEVICE;
	if (bytes == 0 || !space_holds(address, bytes) || managed_where(address) == -2)
		return CUDA_ERROR_INVALID_VALUE;
	managed_move(address, to);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice to,
				       CUstream stream)
{
	SIM_ENTER();
	return prefetch(address, bytes, to, stream);
}

SIM_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation to,
					  unsigned int flags, CUstream stream)
{
	SIM_ENTER();
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return prefetch(address, bytes, to.type == CU_MEM_LOCATION_TYPE_DEVICE ? to.id : -1, stream);
}

SIM_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
					    CUmemLocation *to, size_t *first_of, size_t to_count,
					    unsigned long long flags, CUstream stream)
{
	SIM_ENTER();
	if (!addresses || !bytes || !to || !first_of || count == 0 || to_count == 0 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0, which = 0; i < count; i++) {
		while (which + 1 < to_count && first_of[which + 1] <= i)
			which++;
		bool is_device = to[which].type == CU_MEM_LOCATION_TYPE_DEVICE;
		CUresult cr = prefetch(addresses[i], bytes[i], is_device ? to[which].id : -1, stream);

		if (cr != CUDA_SUCCESS)
			return cr;
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device)
{
	(void)advice;
	(void)device;
	SIM_ENTER();
	return bytes && managed_where(address) != -2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice,
				   CUmemLocation location)
{
	(void)advice;
	(void)location;
	SIM_ENTER();
	return bytes && managed_where(address) != -2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only where a range was moved to last (4) is known. */
SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, int attribute,
					   CUdeviceptr address, size_t bytes)
{
	SIM_ENTER();
	CUdevice where = managed_where(address);

	if (!data || size < sizeof(int) || bytes == 0 || where == -2)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)data = attribute == 4 ? where : attribute == 1 ? 0 : -2;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length,
					   unsigned int flags)
{
	(void)length;
	(void)flags;
	SIM_ENTER();
	CUresult cr = stream_check(stream);

	if (cr == CUDA_SUCCESS && managed_where(address) == -2)
		cr = CUDA_ERROR_INVALID_VALUE;
	return cr;
}
