/*
 * Memory of handles in sparse arrays: each part that is mapped holds its allocation, until it is unmapped, mapped
 * anew, or the array goes. Parts are told by where they begin; mipmapped arrays are left out.
 */
#include <stdlib.h>

#include "array.h"
#include "stream.h"
#include "vmm.h"

struct tile {
	unsigned int level, layer, x, y, z;
	struct allocation *allocation;
	struct tile *next;
};

static bool is_at(const struct tile *tile, const CUarrayMapInfo *info)
{
	return tile->level == info->subresource.sparseLevel.level &&
	       tile->layer == info->subresource.sparseLevel.layer &&
	       tile->x == info->subresource.sparseLevel.offsetX &&
	       tile->y == info->subresource.sparseLevel.offsetY &&
	       tile->z == info->subresource.sparseLevel.offsetZ;
}

/* Under space_lock. */
static void take_out(struct tile **at)
{
	struct tile *tile = *at;

	*at = tile->next;
	tile->allocation->mappings--;
	allocation_end_if_unused(tile->allocation);
	free(tile);
}

/* Under space_lock. */
static void unmap(CUarray array, const CUarrayMapInfo *info)
{
	for (struct tile **at = &array->tiles; *at; at = &(*at)->next)
		if (is_at(*at, info)) {
			take_out(at);
			return;
		}
}

static CUresult map(CUarray array, const CUarrayMapInfo *info)
{
	struct allocation *allocation = allocation_of(info->memHandle.memHandle);

	if (!allocation || info->memHandleType != 0 || info->offset >= allocation->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	struct tile *tile = malloc(sizeof *tile);

	if (!tile)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*tile = (struct tile){.level = info->subresource.sparseLevel.level,
			      .layer = info->subresource.sparseLevel.layer,
			      .x = info->subresource.sparseLevel.offsetX,
			      .y = info->subresource.sparseLevel.offsetY,
			      .z = info->subresource.sparseLevel.offsetZ,
			      .allocation = allocation};
	space_lock();
	allocation->mappings++;
	unmap(array, info);
	tile->next = array->tiles;
	array->tiles = tile;
	space_unlock();
	return CUDA_SUCCESS;
}

static CUresult change(const CUarrayMapInfo *info)
{
	CUarray array = info->resource.array;

	if (info->resourceType != CU_RESOURCE_TYPE_ARRAY ||
	    info->subresourceType != CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!object_is(OBJECT_ARRAY, array) || !(array->shape.Flags & CUDA_ARRAY3D_SPARSE) || info->flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP)
		return map(array, info);
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_UNMAP)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	unmap(array, info);
	space_unlock();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	CUresult cr = stream_check(stream);

	if (cr == CUDA_SUCCESS && !infos)
		cr = CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && cr == CUDA_SUCCESS; i++)
		cr = change(&infos[i]);
	return cr;
}

void sparse_drop(CUarray array)
{
	space_lock();
	while (array->tiles)
		take_out(&array->tiles);
	space_unlock();
}
