/* Memory that one call gives and one takes back: linear and pitched. And what is left. */
#include <sys/mman.h>

#include "managed.h"
#include "stream.h"
#include "timeline.h"

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* where the first version's addresses cannot be had, they are refused */
#endif

#define PITCH_GRAIN 512ull

#define LATER_AT_MOST 1024

static struct later {
	uint64_t address; /* 0: a free place */
	CUdevice device;
	uint64_t position;
} laters[LATER_AT_MOST]; /* under space_lock */
static int later_count; /* atomic */

static CUresult give(uint64_t address);

CUresult memory_give_later(uint64_t address, CUstream handle)
{
	CUstream stream;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	space_lock();
	bool is_plain = block_find(address) != NULL;
	struct later *place = NULL;

	for (size_t i = 0; i < LATER_AT_MOST; i++) {
		if (laters[i].address == address)
			is_plain = false; /* it is freed already */
		else if (!laters[i].address && !place)
			place = &laters[i];
	}
	if (is_plain && place) {
		*place = (struct later){.address = address,
					.device = stream->object.context->device,
					.position = __atomic_load_n(&stream->position, __ATOMIC_ACQUIRE)};
		__atomic_fetch_add(&later_count, 1, __ATOMIC_RELEASE);
	}
	space_unlock();
	if (!is_plain || !place)
		return is_plain ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	memory_give_reached();
	return CUDA_SUCCESS;
}

void memory_give_reached(void)
{
	for (size_t i = 0; i < LATER_AT_MOST && __atomic_load_n(&later_count, __ATOMIC_ACQUIRE); i++) {
		space_lock();
		const struct later one = laters[i];

		space_unlock();
		if (!one.address || !timeline_is_done(one.device, one.position))
			continue;
		space_lock();
		bool is_mine = laters[i].address == one.address;

		if (is_mine)
			laters[i].address = 0;
		space_unlock();
		if (!is_mine)
			continue;
		__atomic_fetch_sub(&later_count, 1, __ATOMIC_RELEASE);
		give(one.address);
	}
}

static CUresult take(uint64_t bytes, int map_flags, CUdeviceptr *ret_address)
{
	CUcontext context;
	struct block *block;
	CUresult cr = context_current(&context);

	if (cr == CUDA_SUCCESS)
		cr = stream_unsafe_call(context);
	if (cr != CUDA_SUCCESS)
		return cr;
	memory_give_reached();
	space_lock();
	cr = heap_take(&context->heap, bytes, map_flags, context, NULL, &block);
	if (cr == CUDA_SUCCESS)
		*ret_address = block->address;
	space_unlock();
	return cr;
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	SIM_ENTER();
	return address ? take(bytes, 0, address) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes)
{
	CUdeviceptr taken;

	SIM_ENTER();
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!MAP_32BIT)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult cr = take(bytes, MAP_32BIT, &taken);

	if (cr == CUDA_SUCCESS)
		*address = (CUdeviceptr_v1)taken;
	return cr;
}

static CUresult take_pitched(size_t width, size_t height, unsigned int element, int map_flags,
			     size_t *ret_pitch, CUdeviceptr *ret_address)
{
	if (width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > UINT64_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t pitch = (width + PITCH_GRAIN - 1) / PITCH_GRAIN * PITCH_GRAIN;

	if (height > UINT64_MAX / pitch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult cr = take(pitch * height, map_flags, ret_address);

	if (cr == CUDA_SUCCESS)
		*ret_pitch = pitch;
	return cr;
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width,
				       size_t height, unsigned int element)
{
	SIM_ENTER();
	if (!address || !pitch)
		return CUDA_ERROR_INVALID_VALUE;
	return take_pitched(width, height, element, 0, pitch, address);
}

SIM_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch,
				    unsigned int width, unsigned int height, unsigned int element)
{
	CUdeviceptr taken;
	size_t wide;

	SIM_ENTER();
	if (!address || !pitch)
		return CUDA_ERROR_INVALID_VALUE;
	if (!MAP_32BIT)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult cr = take_pitched(width, height, element, MAP_32BIT, &wide, &taken);

	if (cr == CUDA_SUCCESS) {
		*address = (CUdeviceptr_v1)taken;
		*pitch = (unsigned int)wide;
	}
	return cr;
}

static CUresult give(uint64_t address)
{
	CUresult cr = CUDA_SUCCESS;

	if (address == 0)
		return cr;
	space_lock();
	struct block *block = block_find(address);

	if (block)
		heap_give(block);
	else
		cr = managed_free(address);
	space_unlock();
	return cr;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	SIM_ENTER();
	return give(address);
}

SIM_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
	SIM_ENTER();
	return give(address);
}

/* Either pointer may be NULL: the real driver takes that. */
static CUresult info(size_t *free_bytes, size_t *total_bytes)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	const struct sim_device *device = sim_device(context->device);
	uint64_t used = sim_used_bytes(device);

	if (free_bytes)
		*free_bytes = device->free_bytes_at_most > used ? device->free_bytes_at_most - used : 0;
	if (total_bytes)
		*total_bytes = device->total_bytes;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	SIM_ENTER();
	return info(free_bytes, total_bytes);
}

SIM_EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	size_t free_now, total;

	SIM_ENTER();
	CUresult cr = info(&free_now, &total);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (free_bytes)
		*free_bytes = free_now > UINT32_MAX ? UINT32_MAX : (unsigned int)free_now;
	if (total_bytes)
		*total_bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!space_place(address, &place) || place.kind == SPAN_HOST)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = place.address;
	if (bytes)
		*bytes = place.bytes;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *bytes,
					 CUdeviceptr_v1 address)
{
	CUdeviceptr start;
	size_t length;
	CUresult cr = cuMemGetAddressRange_v2(&start, &length, address);

	if (cr == CUDA_SUCCESS && base)
		*base = (CUdeviceptr_v1)start;
	if (cr == CUDA_SUCCESS && bytes)
		*bytes = (unsigned int)length;
	return cr;
}
