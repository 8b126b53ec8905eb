/*
 * Pools from their making to their end, and which device each is of: the one that it was made for, whoever allocates
 * from it, in a stream of whichever device.
 *
 * Open: these take nothing.
 */
#include <stdbool.h>
#include <stddef.h>

#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

/*
 * Which device the memory of such a pool is of; NULL: none, it is the host's. False: of the device that is current
 * when it is taken, as managed memory is.
 */
static bool place_of(int kind, const CUmemLocation *location, struct pages_device **ret_device)
{
	const bool is_host = location->type >= CU_MEM_LOCATION_TYPE_HOST &&
			     location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	if (context_of_location(location, ret_device) == CUDA_SUCCESS)
		return true;
	*ret_device = NULL;
	return is_host && kind != CU_MEM_ALLOCATION_TYPE_MANAGED;
}

/* Is it a device's own pool, which nobody made? Then of which? */
static bool is_default_of(CUmemoryPool pool, struct pages_device **ret_device)
{
	int count = 0;
	if (!real.cuDeviceGetCount || !real.cuDeviceGetDefaultMemPool ||
	    real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < count; i++) {
		CUmemoryPool of_device;
		if (real.cuDeviceGetDefaultMemPool(&of_device, i) == CUDA_SUCCESS && of_device == pool)
			return context_device(i, ret_device) == CUDA_SUCCESS;
	}
	return false;
}

/* What a pool's memory is of, where its attributes say so, which they do of the newest drivers. */
static bool has_said(CUmemoryPool pool, struct pages_device **ret_device)
{
	CUmemLocation location;
	int kind;
	if (!real.cuMemPoolGetAttribute ||
	    real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_ALLOCATION_TYPE, &kind) != CUDA_SUCCESS ||
	    real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_TYPE, &location.type) != CUDA_SUCCESS ||
	    real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_ID, &location.id) != CUDA_SUCCESS)
		return false;
	return place_of(kind, &location, ret_device);
}

int hook_pool_of(CUmemoryPool handle, struct pages_device *current, struct pool **ret_pool)
{
	struct pages_device *device;
	*ret_pool = pools_find(POOL_STREAM_ORDERED, (uintptr_t)handle);
	if (*ret_pool)
		return 0;
	if (!has_said(handle, &device) && !is_default_of(handle, &device))
		device = current;
	return pools_get(POOL_STREAM_ORDERED, (uintptr_t)handle, device, ret_pool);
}

HOOK_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	if (!real_load(REAL_CUDA) || !real.cuMemPoolCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemPoolCreate(pool, properties);
	struct pages_device *device;
	struct pool *known;
	if (cr == CUDA_SUCCESS && place_of(properties->allocType, &properties->location, &device))
		pools_get(POOL_STREAM_ORDERED, (uintptr_t)*pool, device, &known);
	return cr;
}

/* What a destroyed pool has lives on until the last of its blocks is freed, and stays charged as long. */
HOOK_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	if (!real_load(REAL_CUDA) || !real.cuMemPoolDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct pool *known = pools_find(POOL_STREAM_ORDERED, (uintptr_t)pool);
	/* Before, for the driver may give the handle to another thread at once, and tells of it no more. */
	if (known) {
		pools_touch(known);
		hook_settle(known, NULL, true);
		pools_orphan(known);
	}
	CUresult cr = real.cuMemPoolDestroy(pool);
	if (known)
		pools_bury(known, cr == CUDA_SUCCESS);
	return cr;
}

HOOK_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t kept_bytes)
{
	if (!real_load(REAL_CUDA) || !real.cuMemPoolTrimTo)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuMemPoolTrimTo(pool, kept_bytes);
	hook_settle_pools();
	return cr;
}
