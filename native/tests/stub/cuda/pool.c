/* Memory pools and what is allocated in the order of a stream. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "foreign.h"
#include "graph.h"
#include "stream.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool defaults[SIM_DEVICES_MAX], currents[SIM_DEVICES_MAX];

static CUmemoryPool make(CUdevice device, uint64_t max_bytes)
{
	CUmemoryPool pool = object_new(OBJECT_POOL, sizeof *pool, NULL);

	if (!pool)
		return NULL;
	pool->heap = (struct heap){.device = device,
				   .grain = HEAP_POOL_GRAIN,
				   .shared_at_most = UINT64_MAX,
				   .max_bytes = max_bytes};
	space_lock();
	heap_keeper_begin(&pool->heap);
	space_unlock();
	pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
	return pool;
}

static CUmemoryPool default_of(CUdevice device)
{
	pthread_mutex_lock(&mutex);
	if (!defaults[device]) {
		defaults[device] = make(device, 0);
		if (defaults[device])
			defaults[device]->is_default = true;
	}
	CUmemoryPool pool = defaults[device];

	pthread_mutex_unlock(&mutex);
	return pool;
}

CUmemoryPool pool_of_device(CUdevice device)
{
	pthread_mutex_lock(&mutex);
	CUmemoryPool pool = currents[device];

	pthread_mutex_unlock(&mutex);
	return pool ? pool : default_of(device);
}

static void trim_at_sync(void *handle, void *device)
{
	CUmemoryPool pool = handle;

	if (pool->heap.device != *(CUdevice *)device)
		return;
	space_lock();
	if (pool->heap.reserved > pool->threshold && pool->heap.reserved > pool->heap.used)
		heap_trim(&pool->heap, pool->threshold);
	space_unlock();
}

void pool_at_sync(CUdevice device)
{
	memory_give_reached();
	object_each(OBJECT_POOL, trim_at_sync, &device);
}

CUresult pool_take(CUmemoryPool pool, uint64_t bytes, CUdeviceptr *ret_address)
{
	struct block *block;

	space_lock();
	CUresult cr = heap_take(&pool->heap, bytes, 0, NULL, pool, &block);

	if (cr == CUDA_SUCCESS)
		*ret_address = block->address;
	space_unlock();
	return cr;
}

CUresult pool_give(uint64_t address)
{
	CUmemoryPool ended = NULL;

	space_lock();
	struct block *block = block_find(address);
	CUmemoryPool pool = block ? block->pool : NULL;

	if (pool) {
		heap_give(block);
		if (pool->is_destroyed && pool->heap.used == 0) {
			heap_trim(&pool->heap, 0);
			heap_keeper_end(&pool->heap);
			ended = pool;
		}
	}
	space_unlock();
	free(ended);
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult take(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	CUgraph graph = stream_capture(stream);

	if (graph && pool->heap.device < 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (graph)
		return graph_capture_alloc(graph, stream, pool->heap.device, bytes, address);
	return pool_take(pool, bytes, address);
}

SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	CUresult cr = stream_check(stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!address || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUmemoryPool pool = pool_of_device(stream_device(stream, context));

	return pool ? take(address, bytes, pool, stream) : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
					    CUstream stream)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	CUresult cr = stream_check(stream);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!address || bytes == 0 || !object_is(OBJECT_POOL, pool) || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	return take(address, bytes, pool, stream);
}

SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	CUresult cr = stream_check(stream);

	if (cr != CUDA_SUCCESS || address == 0)
		return cr;
	CUgraph graph = stream_capture(stream);

	if (graph)
		return graph_capture_free(graph, stream, address);
	if (graph_free_outside(address) == CUDA_SUCCESS || pool_give(address) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	cr = memory_give_later(address, stream);
	return cr == CUDA_SUCCESS ? cr : foreign_close(address);
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUdevice device = -1;

	SIM_ENTER();
	if (!pool || !props || props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	/* Managed memory may prefer a place, and is on the host as long as nobody touches it. */
	bool is_managed = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;

	if (!is_managed && props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = is_managed ? CUDA_SUCCESS : sim_location(&props->location, &device);

	if (cr != CUDA_SUCCESS)
		return cr;
	CUmemoryPool made = make(device, props->maxSize);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->handle_types = props->handleTypes;
	made->usage = props->usage;
	made->is_managed = is_managed;
	*pool = made;
	return CUDA_SUCCESS;
}

/* What is still allocated stays good; the last free gives all back that the pool has. */
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	SIM_ENTER();
	if (!object_is(OBJECT_POOL, pool) || pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	if (pool->heap.device >= 0 && currents[pool->heap.device] == pool)
		currents[pool->heap.device] = NULL;
	pthread_mutex_unlock(&mutex);
	space_lock();
	bool is_empty = pool->heap.used == 0;

	if (is_empty) {
		heap_trim(&pool->heap, 0);
		heap_keeper_end(&pool->heap);
	}
	pool->is_destroyed = true;
	space_unlock();
	if (is_empty)
		object_delete(OBJECT_POOL, pool);
	else
		object_forget(OBJECT_POOL, pool);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	SIM_ENTER();
	if (!object_is(OBJECT_POOL, pool))
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	heap_trim(&pool->heap, keep_bytes);
	space_unlock();
	return CUDA_SUCCESS;
}

static CUresult of_device(CUmemoryPool *pool, CUdevice device, bool is_default)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = is_default ? default_of(device) : pool_of_device(device);
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	SIM_ENTER();
	return of_device(pool, device, true);
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	SIM_ENTER();
	return of_device(pool, device, false);
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, const CUmemLocation *location,
					   int type)
{
	SIM_ENTER();
	if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return of_device(pool, location->id, true);
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location, int type)
{
	SIM_ENTER();
	if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return of_device(pool, location->id, false);
}

static CUresult set_current(CUdevice device, CUmemoryPool pool)
{
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!object_is(OBJECT_POOL, pool) || pool->heap.device != device || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	currents[device] = pool;
	pthread_mutex_unlock(&mutex);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	SIM_ENTER();
	return set_current(device, pool);
}

SIM_EXPORT CUresult cuMemSetMemPool(const CUmemLocation *location, int type, CUmemoryPool pool)
{
	SIM_ENTER();
	if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return set_current(location->id, pool);
}
