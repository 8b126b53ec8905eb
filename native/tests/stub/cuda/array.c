/*
 * Arrays and mipmapped arrays. Each takes 64 KiB at least, in the heap of its context, and what has rows takes whole
 * tiles of them.
 */
#include "array.h"

#include "stream.h"

#define ARRAY_GRAIN (64ull << 10)
#define TILE_BYTES 64ull /* of rows */
#define TILE_ROWS 8ull
#define LEVELS_MAX 32

struct CUmipmappedArray_st {
	struct object object;
	CUDA_ARRAY3D_DESCRIPTOR shape;
	struct block *block;
	unsigned int levels;
	struct CUarray_st level[LEVELS_MAX];
};

static uint64_t format_bytes(int format)
{
	switch (format) {
	case 0x01: case 0x08: case 0xc0: case 0xc6:
		return 1;
	case 0x02: case 0x09: case 0x10: case 0xc3: case 0xc4: case 0xc5: case 0xc9: case 0xca: case 0xcb:
		return 2;
	case 0x03: case 0x0a: case 0x20:
		return 4;
	default:
		return format > 0 ? 1 : 0;
	}
}

uint64_t array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return format_bytes(shape->Format) * shape->NumChannels;
}

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

static uint64_t up_to(uint64_t n, uint64_t part)
{
	return (n + part - 1) / part * part;
}

/* Of compressed formats, what 4 by 4 elements take; 0: it is none. Copies do not know these. */
static uint64_t block_bytes(int format)
{
	bool is_small = format == 0x91 || format == 0x92 || format == 0x97 || format == 0x98; /* BC1, BC4 */

	return is_small ? 8 : format >= 0x91 && format <= 0x9e ? 16 : 0;
}

/* Of formats with planes, what two elements take together; 0: it has none. Nor these. */
static uint64_t pair_bytes(int format)
{
	switch (format) {
	case 0xb0: /* NV12: 4:2:0 */
		return 3;
	case 0xa2: case 0xa5: /* NV16, YUY2: 4:2:2 */
		return 4;
	case 0x9f: case 0xa1: /* P010, P016: 4:2:0 of 16 bits */
	case 0xb2: case 0xb4: /* 4:4:4 */
		return 6;
	case 0xa3: case 0xa4: case 0xa6: case 0xa7: case 0xa8: case 0xa9: case 0x50:
		return 8;
	case 0xb3: case 0xb5: /* 4:4:4 of 16 bits */
		return 12;
	case 0xb1:
		return 16;
	default:
		return 0;
	}
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t row = shape->Width * array_element_bytes(shape);
	uint64_t rows = at_least_one(shape->Height), slices = at_least_one(shape->Depth);

	if (block_bytes(shape->Format))
		return up_to(shape->Width, 4) / 4 * (up_to(rows, 4) / 4) * block_bytes(shape->Format) * slices;
	if (pair_bytes(shape->Format))
		return (shape->Width * rows * slices * pair_bytes(shape->Format) + 1) / 2;
	if (shape->Height && shape->Format <= 0x20) {
		row = up_to(row, TILE_BYTES);
		rows = up_to(rows, TILE_ROWS);
	}
	return row * rows * slices;
}

static uint64_t shape_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return up_to(level_bytes(shape), ARRAY_GRAIN);
}

static bool is_good(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	bool has_channels = shape->NumChannels == 1 || shape->NumChannels == 2 ||
			    shape->NumChannels == 4 ||
			    (shape->NumChannels == 3 && (pair_bytes(shape->Format) || block_bytes(shape->Format)));

	return shape->Width > 0 && format_bytes(shape->Format) > 0 && has_channels &&
	       shape->Width <= 1 << 28 && shape->Height <= 1 << 17 && shape->Depth <= 1 << 15;
}

static bool is_virtual(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static CUresult take(CUcontext context, uint64_t bytes, struct block **ret_block)
{
	space_lock();
	CUresult cr = heap_take(&context->heap, bytes, 0, context, NULL, ret_block);

	space_unlock();
	return cr;
}

static void give(struct block *block)
{
	if (!block)
		return;
	space_lock();
	heap_give(block);
	space_unlock();
}

static CUresult create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr == CUDA_SUCCESS)
		cr = stream_unsafe_call(context);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!array || !is_good(shape))
		return CUDA_ERROR_INVALID_VALUE;
	CUarray made = object_new(OBJECT_ARRAY, sizeof *made, context);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!is_virtual(shape))
		cr = take(context, shape_bytes(shape), &made->block);
	if (cr != CUDA_SUCCESS) {
		object_delete(OBJECT_ARRAY, made);
		return cr;
	}
	made->shape = *shape;
	made->device = context->device;
	made->address = made->block ? made->block->address : 0;
	*array = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *flat)
{
	SIM_ENTER();
	if (!flat)
		return CUDA_ERROR_INVALID_VALUE;
	return create(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width,
							.Height = flat->Height,
							.Format = flat->Format,
							.NumChannels = flat->NumChannels});
}

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	SIM_ENTER();
	return shape ? create(array, shape) : CUDA_ERROR_INVALID_VALUE;
}

/* --- the first forms --- */

SIM_EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *flat)
{
	SIM_ENTER();
	if (!flat)
		return CUDA_ERROR_INVALID_VALUE;
	return create(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width,
							.Height = flat->Height,
							.Format = flat->Format,
							.NumChannels = flat->NumChannels});
}

SIM_EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
	SIM_ENTER();
	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	return create(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->Width,
							.Height = shape->Height,
							.Depth = shape->Depth,
							.Format = shape->Format,
							.NumChannels = shape->NumChannels,
							.Flags = shape->Flags});
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	SIM_ENTER();
	if (!object_is(OBJECT_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->level_of)
		return CUDA_ERROR_INVALID_VALUE;
	sparse_drop(array);
	give(array->block);
	object_delete(OBJECT_ARRAY, array);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array)
{
	SIM_ENTER();
	if (!object_is(OBJECT_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = array->shape;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *flat, CUarray array)
{
	SIM_ENTER();
	if (!object_is(OBJECT_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!flat)
		return CUDA_ERROR_INVALID_VALUE;
	*flat = (CUDA_ARRAY_DESCRIPTOR){.Width = array->shape.Width,
					.Height = array->shape.Height,
					.Format = array->shape.Format,
					.NumChannels = array->shape.NumChannels};
	return CUDA_SUCCESS;
}

/* Only for arrays that are to be mapped later: the real driver refuses it for all others. */
static CUresult require(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, const CUDA_ARRAY3D_DESCRIPTOR *shape,
			uint64_t bytes, CUdevice device)
{
	if (!needs || !is_virtual(shape))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes, .alignment = ARRAY_GRAIN};
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs,
						 CUarray array, CUdevice device)
{
	SIM_ENTER();
	if (!object_is(OBJECT_ARRAY, array))
		return CUDA_ERROR_INVALID_HANDLE;
	return require(needs, &array->shape, shape_bytes(&array->shape), device);
}

static CUDA_ARRAY3D_DESCRIPTOR level_shape(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int level)
{
	CUDA_ARRAY3D_DESCRIPTOR smaller = *shape;
	bool is_layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);

	smaller.Width = at_least_one(shape->Width >> level);
	smaller.Height = shape->Height ? at_least_one(shape->Height >> level) : 0;
	if (!is_layered && shape->Depth)
		smaller.Depth = at_least_one(shape->Depth >> level);
	return smaller;
}

static uint64_t levels_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < levels; i++) {
		CUDA_ARRAY3D_DESCRIPTOR at = level_shape(shape, i);

		bytes += level_bytes(&at);
	}
	return up_to(bytes, ARRAY_GRAIN);
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array,
					   const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!array || !shape || !is_good(shape) || levels == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = stream_unsafe_call(context);
	CUmipmappedArray made = object_new(OBJECT_MIPMAP, sizeof *made, context);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t largest = shape->Width | shape->Height | shape->Depth;

	made->shape = *shape;
	while (made->levels < levels && made->levels < LEVELS_MAX && largest >> made->levels)
		made->levels++;
	if (cr == CUDA_SUCCESS && !is_virtual(shape))
		cr = take(context, levels_bytes(shape, made->levels), &made->block);
	if (cr != CUDA_SUCCESS) {
		object_delete(OBJECT_MIPMAP, made);
		return cr;
	}
	uint64_t address = made->block ? made->block->address : 0;

	for (unsigned int i = 0; i < made->levels; i++) {
		made->level[i] = (struct CUarray_st){.object = {OBJECT_ARRAY, NULL},
						     .shape = level_shape(shape, i),
						     .address = address,
						     .level_of = made,
						     .device = context->device};
		address += made->block ? level_bytes(&made->level[i].shape) : 0;
		object_register(&made->level[i].object);
	}
	*array = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned int i)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MIPMAP, array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!level || i >= array->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*level = &array->level[i];
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs,
							  CUmipmappedArray array, CUdevice device)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MIPMAP, array))
		return CUDA_ERROR_INVALID_HANDLE;
	return require(needs, &array->shape, levels_bytes(&array->shape, array->levels), device);
}

static void destroy_levels(CUmipmappedArray array)
{
	for (unsigned int i = 0; i < array->levels; i++)
		object_forget(OBJECT_ARRAY, &array->level[i]);
	give(array->block);
	object_delete(OBJECT_MIPMAP, array);
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MIPMAP, array))
		return CUDA_ERROR_INVALID_HANDLE;
	destroy_levels(array);
	return CUDA_SUCCESS;
}

void array_drop_context(CUcontext context)
{
	CUmipmappedArray mipmap;
	CUarray array;

	while ((mipmap = object_of_context(OBJECT_MIPMAP, context)))
		destroy_levels(mipmap);
	while ((array = object_of_context(OBJECT_ARRAY, context))) {
		sparse_drop(array);
		give(array->block);
		object_delete(OBJECT_ARRAY, array);
	}
}
