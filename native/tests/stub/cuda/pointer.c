/* What the driver knows about an address. */
#include <string.h>

#include "managed.h"
#include "stream.h"

enum {
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_DEVICE_POINTER = 3,
	ATTRIBUTE_HOST_POINTER = 4,
	ATTRIBUTE_SYNC_MEMOPS = 6,
	ATTRIBUTE_BUFFER_ID = 7,
	ATTRIBUTE_IS_MANAGED = 8,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	ATTRIBUTE_IS_LEGACY_IPC_CAPABLE = 10,
	ATTRIBUTE_RANGE_START = 11,
	ATTRIBUTE_RANGE_SIZE = 12,
	ATTRIBUTE_MAPPED = 13,
	ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	ATTRIBUTE_IS_RDMA_CAPABLE = 15,
	ATTRIBUTE_ACCESS_FLAGS = 16,
	ATTRIBUTE_POOL = 17,
	ATTRIBUTE_MAPPING_SIZE = 18,
	ATTRIBUTE_MAPPING_BASE = 19,
	ATTRIBUTE_MEMORY_BLOCK_ID = 20,
};

static void put(void *data, const void *value, size_t bytes)
{
	memcpy(data, value, bytes);
}

#define PUT(type, value) put(data, &(type){value}, sizeof(type))

static CUresult answer(void *data, int attribute, uint64_t address, const struct place *place)
{
	bool is_host = place->kind == SPAN_HOST;

	switch (attribute) {
	case ATTRIBUTE_CONTEXT:
		PUT(CUcontext, place->context);
		return CUDA_SUCCESS;
	case ATTRIBUTE_MEMORY_TYPE:
		PUT(unsigned int, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
		return CUDA_SUCCESS;
	case ATTRIBUTE_DEVICE_POINTER:
		PUT(CUdeviceptr, address);
		return CUDA_SUCCESS;
	case ATTRIBUTE_HOST_POINTER:
		if (!is_host && place->kind != SPAN_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		PUT(void *, (void *)(uintptr_t)address);
		return CUDA_SUCCESS;
	case ATTRIBUTE_BUFFER_ID:
	case ATTRIBUTE_MEMORY_BLOCK_ID:
		PUT(unsigned long long, place->address);
		return CUDA_SUCCESS;
	case ATTRIBUTE_IS_MANAGED:
		PUT(unsigned int, place->kind == SPAN_MANAGED);
		return CUDA_SUCCESS;
	case ATTRIBUTE_DEVICE_ORDINAL:
		PUT(int, place->device);
		return CUDA_SUCCESS;
	case ATTRIBUTE_IS_LEGACY_IPC_CAPABLE:
		PUT(bool, place->kind == SPAN_HEAP && !place->pool);
		return CUDA_SUCCESS;
	case ATTRIBUTE_RANGE_START:
	case ATTRIBUTE_MAPPING_BASE:
		PUT(CUdeviceptr, place->address);
		return CUDA_SUCCESS;
	case ATTRIBUTE_RANGE_SIZE:
	case ATTRIBUTE_MAPPING_SIZE:
		PUT(size_t, place->bytes);
		return CUDA_SUCCESS;
	case ATTRIBUTE_MAPPED:
		PUT(bool, true);
		return CUDA_SUCCESS;
	case ATTRIBUTE_ACCESS_FLAGS:
		PUT(int, 3);
		return CUDA_SUCCESS;
	case ATTRIBUTE_POOL:
		PUT(CUmemoryPool, place->pool);
		return CUDA_SUCCESS;
	case ATTRIBUTE_SYNC_MEMOPS:
	case ATTRIBUTE_IS_RDMA_CAPABLE:
		PUT(bool, false);
		return CUDA_SUCCESS;
	case ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		PUT(unsigned long long, 0);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!data || !space_place(address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return answer(data, attribute, address, &place);
}

/* Unlike the single form, an unknown pointer is no error: everything about it is zero. */
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
					   CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!attributes || !data || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	bool is_known = space_place(address, &place);

	for (unsigned int i = 0; i < count; i++) {
		bool is_done = is_known &&
			       answer(data[i], attributes[i], address, &place) == CUDA_SUCCESS;

		if (is_done)
			continue;
		bool is_wide = attributes[i] == ATTRIBUTE_CONTEXT ||
			       attributes[i] == ATTRIBUTE_DEVICE_POINTER ||
			       attributes[i] == ATTRIBUTE_HOST_POINTER ||
			       attributes[i] == ATTRIBUTE_RANGE_START ||
			       attributes[i] == ATTRIBUTE_RANGE_SIZE;

		if (attributes[i] == ATTRIBUTE_DEVICE_ORDINAL)
			put(data[i], &(int){-2}, sizeof(int));
		else
			memset(data[i], 0, is_wide ? 8 : attributes[i] == ATTRIBUTE_MAPPED ? 1 : 4);
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!value || attribute != ATTRIBUTE_SYNC_MEMOPS || !space_place(address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
