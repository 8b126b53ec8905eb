/* Attributes of pools, who may use their memory, and how they travel to other processes. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foreign.h"
#include "pool.h"
#include "stream.h"

enum {
	POOL_REUSE_FIRST = 1,
	POOL_REUSE_LAST = 3,
	POOL_RELEASE_THRESHOLD = 4,
	POOL_RESERVED_CURRENT = 5,
	POOL_RESERVED_HIGH = 6,
	POOL_USED_CURRENT = 7,
	POOL_USED_HIGH = 8,
	POOL_ALLOCATION_TYPE = 9,
	POOL_EXPORT_HANDLE_TYPES = 10,
	POOL_LOCATION_ID = 11,
	POOL_LOCATION_TYPE = 12,
	POOL_MAX_SIZE = 13,
	POOL_HW_DECOMPRESS = 14,
};

static bool get_wide(CUmemoryPool pool, int attribute, cuuint64_t *ret_value)
{
	switch (attribute) {
	case POOL_RELEASE_THRESHOLD:
		*ret_value = pool->threshold;
		return true;
	case POOL_RESERVED_CURRENT:
		*ret_value = pool->heap.reserved;
		return true;
	case POOL_RESERVED_HIGH:
		*ret_value = pool->heap.reserved_high;
		return true;
	case POOL_USED_CURRENT:
		*ret_value = pool->heap.used;
		return true;
	case POOL_USED_HIGH:
		*ret_value = pool->heap.used_high;
		return true;
	case POOL_MAX_SIZE:
		*ret_value = pool->heap.max_bytes;
		return true;
	default:
		return false;
	}
}

/* What a pool is, newer drivers tell; in which version of 13 they began is not told. */
#define KNOWS_POOLS 13050

static bool get_narrow(CUmemoryPool pool, int attribute, int *ret_value)
{
	const bool is_host = pool->heap.device < 0;

	if (attribute >= POOL_ALLOCATION_TYPE && sim_cuda_version() < KNOWS_POOLS)
		return false;
	if (attribute >= POOL_REUSE_FIRST && attribute <= POOL_REUSE_LAST)
		*ret_value = pool->reuse[attribute - POOL_REUSE_FIRST];
	else if (attribute == POOL_ALLOCATION_TYPE)
		*ret_value = pool->is_managed ? CU_MEM_ALLOCATION_TYPE_MANAGED :
						CU_MEM_ALLOCATION_TYPE_PINNED;
	else if (attribute == POOL_EXPORT_HANDLE_TYPES)
		*ret_value = pool->handle_types;
	else if (attribute == POOL_LOCATION_ID)
		*ret_value = is_host ? 0 : pool->heap.device;
	else if (attribute == POOL_LOCATION_TYPE)
		*ret_value = is_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
	else if (attribute == POOL_HW_DECOMPRESS)
		*ret_value = 0;
	else
		return false;
	return true;
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	cuuint64_t wide;
	int narrow;

	SIM_ENTER();
	if (!value || !object_is(OBJECT_POOL, pool))
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	bool is_wide = get_wide(pool, attribute, &wide);
	bool is_narrow = !is_wide && get_narrow(pool, attribute, &narrow);

	space_unlock();
	if (is_wide)
		memcpy(value, &wide, sizeof wide);
	else if (is_narrow)
		memcpy(value, &narrow, sizeof narrow);
	return is_wide || is_narrow ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* High-water marks can only be set to zero, which means: to what is current. */
SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	cuuint64_t wide = 0;

	SIM_ENTER();
	if (!value || !object_is(OBJECT_POOL, pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute >= POOL_REUSE_FIRST && attribute <= POOL_REUSE_LAST) {
		memcpy(&pool->reuse[attribute - POOL_REUSE_FIRST], value, sizeof(int));
		return CUDA_SUCCESS;
	}
	memcpy(&wide, value, sizeof wide);
	bool is_high = attribute == POOL_RESERVED_HIGH || attribute == POOL_USED_HIGH;

	if ((!is_high && attribute != POOL_RELEASE_THRESHOLD) || (is_high && wide != 0))
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	if (attribute == POOL_RELEASE_THRESHOLD)
		pool->threshold = wide;
	else if (attribute == POOL_RESERVED_HIGH)
		pool->heap.reserved_high = pool->heap.reserved;
	else
		pool->heap.used_high = pool->heap.used;
	space_unlock();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	SIM_ENTER();
	if (!object_is(OBJECT_POOL, pool) || (count && !map))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    !sim_device(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
	SIM_ENTER();
	if (!flags || !location || !object_is(OBJECT_POOL, pool))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool->heap.device
			 ? 3
			 : 0;
	return CUDA_SUCCESS;
}

/* The descriptor's name says which device the pool is on; nothing is in the file. */
SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, int type,
						     unsigned long long flags)
{
	char name[PROFILE_TEXT + 16];

	SIM_ENTER();
	if (!handle || flags || !object_is(OBJECT_POOL, pool) || pool->is_default || pool->heap.device < 0 ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(pool->handle_types & type))
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, sizeof name, "hamid-sim-pool %s", sim_device(pool->heap.device)->uuid);
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(handle, &fd, sizeof fd);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
						       unsigned long long flags)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location.type = CU_MEM_LOCATION_TYPE_DEVICE};

	SIM_ENTER();
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_named_device((int)(intptr_t)handle, "hamid-sim-pool ", &props.location.id))
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult cr = cuMemPoolCreate(pool, &props);

	if (cr == CUDA_SUCCESS)
		(*pool)->is_imported = true;
	return cr;
}

SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!data || !space_place(address, &place) || !place.pool || !place.pool->handle_types)
		return CUDA_ERROR_INVALID_VALUE;
	memset(data, 0, sizeof *data);
	const uint64_t told[] = {place.bytes, place.address, (uint64_t)getpid()};

	memcpy(data->reserved, told, sizeof told);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
					   CUmemPoolPtrExportData *data)
{
	uint64_t bytes;

	SIM_ENTER();
	if (!address || !data || !object_is(OBJECT_POOL, pool) || !pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&bytes, data->reserved, sizeof bytes);
	return foreign_open(bytes, pool->heap.device, NULL, address);
}
