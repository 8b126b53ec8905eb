/* See copy.h: what all copies and fills come down to. */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "managed.h"
#include "timeline.h"

/* One side of a copy, as rows. */
struct side {
	char *first; /* of the rows that are copied */
	size_t pitch, slice;
};

static uint64_t at_least(uint64_t n, uint64_t least)
{
	return n > least ? n : least;
}

static CUresult array_side(CUarray array, size_t x, size_t y, size_t z, struct side *ret_side)
{
	if (!object_is(OBJECT_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!array->address)
		return CUDA_ERROR_INVALID_VALUE;
	size_t pitch = array->shape.Width * array_element_bytes(&array->shape);
	size_t slice = pitch * at_least(array->shape.Height, 1);

	*ret_side = (struct side){(char *)(uintptr_t)array->address + z * slice + y * pitch + x, pitch,
				  slice};
	return CUDA_SUCCESS;
}

static CUresult find_side(int type, const void *host, CUdeviceptr device, CUarray array,
			  const size_t at[3], const size_t size[2], const CUDA_MEMCPY3D *copy,
			  struct side *ret_side)
{
	if (type == CU_MEMORYTYPE_ARRAY)
		return array_side(array, at[0], at[1], at[2], ret_side);
	bool is_host = type == CU_MEMORYTYPE_HOST;

	if (!is_host && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t base = is_host ? (uint64_t)(uintptr_t)host : device;
	size_t pitch = at_least(size[0], copy->Height > 1 || copy->Depth > 1 ? copy->WidthInBytes : 0);
	size_t slice = pitch * at_least(size[1], copy->Height);
	uint64_t first = base + at[2] * slice + at[1] * pitch + at[0];

	if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
		return CUDA_SUCCESS; /* nothing is touched */
	if (first == 0)
		return CUDA_ERROR_INVALID_VALUE;
	size_t extent = (copy->Depth - 1) * slice + (copy->Height - 1) * pitch + copy->WidthInBytes;

	if (type == CU_MEMORYTYPE_DEVICE && !space_holds(first, extent))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_side = (struct side){(char *)(uintptr_t)first, pitch, slice};
	return CUDA_SUCCESS;
}

static void touch(int type, CUdeviceptr address)
{
	CUcontext context;

	if (type == CU_MEMORYTYPE_DEVICE && managed_where(address) == -1 &&
	    context_current(&context) == CUDA_SUCCESS)
		managed_move(address, context->device);
}

CUresult copy_do(const CUDA_MEMCPY3D *copy)
{
	struct side from = {0}, to = {0};
	CUresult cr = find_side(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray,
				(size_t[]){copy->srcXInBytes, copy->srcY, copy->srcZ},
				(size_t[]){copy->srcPitch, copy->srcHeight}, copy, &from);

	if (cr == CUDA_SUCCESS)
		cr = find_side(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray,
			       (size_t[]){copy->dstXInBytes, copy->dstY, copy->dstZ},
			       (size_t[]){copy->dstPitch, copy->dstHeight}, copy, &to);
	if (cr != CUDA_SUCCESS || copy->WidthInBytes == 0)
		return cr;
	touch(copy->srcMemoryType, copy->srcDevice);
	touch(copy->dstMemoryType, copy->dstDevice);
	for (size_t z = 0; z < copy->Depth; z++)
		for (size_t y = 0; y < copy->Height; y++)
			memmove(to.first + z * to.slice + y * to.pitch,
				from.first + z * from.slice + y * from.pitch, copy->WidthInBytes);
	return CUDA_SUCCESS;
}

CUresult fill_do(const CUDA_MEMSET_NODE_PARAMS *fill)
{
	size_t wide = fill->width * fill->elementSize;

	if (wide == 0 || fill->height == 0)
		return CUDA_SUCCESS;
	if (fill->dst % fill->elementSize || (fill->height > 1 && fill->pitch < wide))
		return CUDA_ERROR_INVALID_VALUE;
	if (!space_holds(fill->dst, (fill->height - 1) * fill->pitch + wide))
		return CUDA_ERROR_INVALID_VALUE;
	touch(CU_MEMORYTYPE_DEVICE, fill->dst);
	for (size_t y = 0; y < fill->height; y++) {
		char *row = (char *)(uintptr_t)fill->dst + y * fill->pitch;

		if (fill->elementSize == 1) {
			memset(row, (int)(fill->value & 0xff), wide);
			continue;
		}
		for (size_t x = 0; x < fill->width; x++)
			memcpy(row + x * fill->elementSize, &fill->value, fill->elementSize);
	}
	return CUDA_SUCCESS;
}

/* What each takes of the device's time, whatever its size. */
static void take_time(CUstream stream)
{
	static uint64_t ns = UINT64_MAX;

	if (ns == UINT64_MAX) {
		const char *given = getenv("HAMID_SIM_FILL_NS");

		ns = given ? strtoull(given, NULL, 10) : 0;
	}
	if (ns)
		stream_submit(stream, ns);
}

static bool is_on_device(int type, CUdeviceptr address)
{
	struct place place;

	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY ||
	       (type == CU_MEMORYTYPE_UNIFIED && space_place(address, &place) && place.kind != SPAN_HOST);
}

CUresult copy_in(const CUDA_MEMCPY3D *copy, CUstream handle, bool is_sync)
{
	CUstream stream;
	CUgraphNode node;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (stream->graph && is_sync)
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (stream->graph) {
		cr = graph_capture_node(stream->graph, stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node);
		if (cr == CUDA_SUCCESS)
			node->copy = *copy;
		return cr;
	}
	if (is_sync)
		timeline_wait_all(stream->object.context->device);
	cr = copy_do(copy);
	if (cr == CUDA_SUCCESS && is_on_device(copy->srcMemoryType, copy->srcDevice) &&
	    is_on_device(copy->dstMemoryType, copy->dstDevice))
		take_time(stream);
	return cr;
}

CUresult fill_in(const CUDA_MEMSET_NODE_PARAMS *fill, CUstream handle, bool is_sync)
{
	CUstream stream;
	CUgraphNode node;
	CUresult cr = stream_resolve(handle, &stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (stream->graph && is_sync)
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (stream->graph) {
		cr = graph_capture_node(stream->graph, stream, CU_GRAPH_NODE_TYPE_MEMSET, &node);
		if (cr == CUDA_SUCCESS)
			node->fill = *fill;
		return cr;
	}
	cr = fill_do(fill);
	if (cr == CUDA_SUCCESS)
		take_time(stream);
	return cr;
}
