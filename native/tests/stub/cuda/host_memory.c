/* Memory of the host that the driver knows: pinned, or registered by the program. */
#include <stdlib.h>
#include <sys/mman.h>

#include "stream.h"

struct pinned {
	struct span span;
	unsigned int flags;
	bool is_ours; /* mapped here, not registered */
};

static CUresult note(void *memory, uint64_t bytes, unsigned int flags, bool is_ours)
{
	CUcontext context;
	CUresult cr = context_current(&context);
	struct pinned *pinned = calloc(1, sizeof *pinned);

	if (cr == CUDA_SUCCESS && !pinned)
		cr = CUDA_ERROR_OUT_OF_MEMORY;
	if (cr != CUDA_SUCCESS) {
		free(pinned);
		return cr;
	}
	*pinned = (struct pinned){.span = {.address = (uint64_t)(uintptr_t)memory,
					   .bytes = bytes,
					   .kind = SPAN_HOST,
					   .device = context->device,
					   .context = context,
					   .owner = pinned},
				  .flags = flags,
				  .is_ours = is_ours};
	space_lock();
	if (span_at(pinned->span.address))
		cr = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else if (!span_add(&pinned->span))
		cr = CUDA_ERROR_OUT_OF_MEMORY;
	space_unlock();
	if (cr != CUDA_SUCCESS)
		free(pinned);
	return cr;
}

static CUresult forget(void *memory, bool is_ours, CUresult otherwise)
{
	space_lock();
	struct span *span = span_at((uint64_t)(uintptr_t)memory);
	struct pinned *pinned = span && span->kind == SPAN_HOST ? span->owner : NULL;
	bool is_it = pinned && pinned->is_ours == is_ours &&
		     pinned->span.address == (uint64_t)(uintptr_t)memory;

	if (is_it)
		span_remove(span);
	space_unlock();
	if (!is_it)
		return otherwise;
	if (is_ours)
		munmap(memory, pinned->span.bytes);
	free(pinned);
	return CUDA_SUCCESS;
}

static CUresult take(void **ret_memory, size_t bytes, unsigned int flags)
{
	if (!ret_memory || bytes == 0 || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	void *memory = space_map(bytes, 4096, PROT_READ | PROT_WRITE, 0);

	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult cr = note(memory, bytes, flags, true);

	if (cr == CUDA_SUCCESS)
		*ret_memory = memory;
	else
		munmap(memory, bytes);
	return cr;
}

SIM_EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	SIM_ENTER();
	return take(memory, bytes, flags);
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
	SIM_ENTER();
	return take(memory, bytes, 0);
}

SIM_EXPORT CUresult cuMemAllocHost(void **memory, unsigned int bytes)
{
	SIM_ENTER();
	return take(memory, bytes, 0);
}

SIM_EXPORT CUresult cuMemFreeHost(void *memory)
{
	SIM_ENTER();
	return memory ? forget(memory, true, CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
	SIM_ENTER();
	if (!memory || bytes == 0 || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	return note(memory, bytes, flags, false);
}

SIM_EXPORT CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags)
{
	return cuMemHostRegister_v2(memory, bytes, flags);
}

SIM_EXPORT CUresult cuMemHostUnregister(void *memory)
{
	SIM_ENTER();
	return memory ? forget(memory, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
		      : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory,
						 unsigned int flags)
{
	struct place place;

	SIM_ENTER();
	if (!address || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!space_place((uint64_t)(uintptr_t)memory, &place) || place.kind != SPAN_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	*address = (uint64_t)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *memory)
{
	SIM_ENTER();
	space_lock();
	const struct span *span = span_at((uint64_t)(uintptr_t)memory);
	const struct pinned *pinned = span && span->kind == SPAN_HOST ? span->owner : NULL;

	if (flags && pinned)
		*flags = pinned->flags;
	space_unlock();
	return flags && pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
