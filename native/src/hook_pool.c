/*
 * Stream-ordered memory. Charged is what its pool has reserved: an allocation that fits into what
 * the pool has already costs nothing, one that makes the pool grow is reserved before.
 *
 * How much a pool will grow only the driver knows: what it grew by more than was asked is charged
 * afterwards, and if that is over the limit, the block goes back and the pool is trimmed.
 *
 * Fails closed.
 */
#include "hook_pool.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "errors.h"
#include "hook_graph.h"
#include "hook_leaving.h"
#include "hooks.h"
#include "real.h"

static CUresult ask_reserved(const struct pool *pool, uint64_t *ret_bytes)
{
	cuuint64_t reserved = 0;
	CUresult cr = CUDA_ERROR_NOT_SUPPORTED;
	if (pools_kind(pool) == POOL_GRAPH && real.cuDeviceGetGraphMemAttribute)
		cr = real.cuDeviceGetGraphMemAttribute((CUdevice)(pools_key(pool) - 1),
						       CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
						       &reserved);
	else if (pools_kind(pool) == POOL_STREAM_ORDERED && real.cuMemPoolGetAttribute)
		cr = real.cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)pools_key(pool),
						CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	*ret_bytes = reserved;
	return cr;
}

int hook_settle(struct pool *pool, const struct ledger_charge *advance, bool is_forced)
{
	for (;;) {
		uint64_t reserved;
		const uint64_t version = pools_version(pool);
		if (is_forced && pools_is_growing(pool))
			return 0;
		if (ask_reserved(pool, &reserved) != CUDA_SUCCESS)
			reserved = pools_charged_bytes(pool) + (advance ? advance->size_bytes : 0);
		int r = pools_settle(pool, version, reserved, advance, is_forced);
		if (r != -EAGAIN)
			return r;
	}
}

void hook_settle_pools(void)
{
	hook_leaving_settle();
	if (!pools_are_charged())
		return;
	for (struct pool *pool = pools_next_charged(NULL); pool; pool = pools_next_charged(pool)) {
		pools_touch(pool);
		hook_settle(pool, NULL, true);
	}
}

/* Have this process's pools of a device give back what they do not need. */
static void trim_pools(const struct pages_device *device)
{
	for (struct pool *pool = pools_next_charged(NULL); pool; pool = pools_next_charged(pool)) {
		if (pools_device(pool) != device)
			continue;
		if (pools_kind(pool) == POOL_GRAPH && real.cuDeviceGraphMemTrim)
			real.cuDeviceGraphMemTrim((CUdevice)(pools_key(pool) - 1));
		else if (pools_kind(pool) == POOL_STREAM_ORDERED && real.cuMemPoolTrimTo)
			real.cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)pools_key(pool), 0);
	}
	hook_settle_pools();
}

/* Before a no: is there more room, now that what was on its way back, or can be given back, is back? */
static bool has_made_room(const struct pages_device *device)
{
	const bool has_left = hook_leaving_settle();
	if (!pools_are_charged())
		return has_left;
	trim_pools(device);
	return true;
}

CUresult hook_reserve(struct pages_device *device, uint64_t size_bytes,
		      struct ledger_charge *ret_charge)
{
	int r = ledger_reserve(device, size_bytes, ret_charge);
	if (r == -ENOMEM && has_made_room(device))
		r = ledger_reserve(device, size_bytes, ret_charge);
	return cu_from_errno(r);
}

CUresult hook_reserve_managed(struct pages_device *device, uint64_t size_bytes,
			      struct ledger_charge *ret_charge)
{
	int r = ledger_reserve_managed(device, size_bytes, ret_charge);
	if (r == -ENOMEM && has_made_room(device))
		r = ledger_reserve_managed(device, size_bytes, ret_charge);
	return cu_from_errno(r);
}

CUresult hook_resize(struct ledger_charge *charge, uint64_t size_bytes)
{
	int r = ledger_resize(charge, size_bytes);
	if (r == -ENOMEM && has_made_room(charge->device))
		r = ledger_resize(charge, size_bytes);
	return cu_from_errno(r);
}

CUresult hook_take_begin(uint64_t size_bytes, struct hook_taking *ret_taking)
{
	ret_taking->here.device = NULL;
	CUresult cr = context_here(&ret_taking->here);
	return cr == CUDA_SUCCESS ?
		       hook_reserve(ret_taking->here.device, size_bytes, &ret_taking->charge) :
		       cr;
}

CUresult hook_take_begin_managed(uint64_t size_bytes, struct hook_taking *ret_taking)
{
	CUresult cr = context_here(&ret_taking->here);
	return cr == CUDA_SUCCESS ?
		       hook_reserve_managed(ret_taking->here.device, size_bytes, &ret_taking->charge) :
		       cr;
}

CUresult hook_take_end(const struct hook_taking *taking, CUresult cr, enum ledger_kind kind,
		       uint64_t key)
{
	if (cr == CUDA_SUCCESS)
		cr = cu_from_errno(ledger_commit(&taking->charge, kind, key,
						 (uintptr_t)taking->here.context));
	if (cr != CUDA_SUCCESS)
		ledger_cancel(&taking->charge);
	return cr;
}

/* Is the stream recording? Then also into which graph, where the driver tells (11.3). */
static bool is_capturing(CUstream stream, bool is_per_thread, CUgraph *ret_graph)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult cr = CUDA_ERROR_NOT_SUPPORTED;
	if (is_per_thread && real.cuStreamIsCapturing_ptsz)
		cr = real.cuStreamIsCapturing_ptsz(stream, &status);
	else if (real.cuStreamIsCapturing)
		cr = real.cuStreamIsCapturing(stream, &status);
	if (cr != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE)
		return false;
	*ret_graph = NULL;
	if (is_per_thread && real.cuStreamGetCaptureInfo_v2_ptsz)
		real.cuStreamGetCaptureInfo_v2_ptsz(stream, &status, NULL, ret_graph, NULL, NULL);
	else if (real.cuStreamGetCaptureInfo_v2)
		real.cuStreamGetCaptureInfo_v2(stream, &status, NULL, ret_graph, NULL, NULL);
	return true;
}

/* What the pool would have to grow by at least. */
static uint64_t growth(CUmemoryPool pool, uint64_t size_bytes)
{
	cuuint64_t reserved = 0, used = 0;
	if (!real.cuMemPoolGetAttribute ||
	    real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
		    CUDA_SUCCESS ||
	    real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) !=
		    CUDA_SUCCESS)
		return size_bytes;
	return reserved >= used && reserved - used >= size_bytes ? 0 : size_bytes;
}

struct request {
	CUdeviceptr *address;
	size_t size_bytes;
	CUmemoryPool pool; /* NULL: the device's current one */
	CUstream stream;
	bool is_per_thread;
};

static CUresult call_driver(const struct request *request)
{
	if (request->pool && request->is_per_thread)
		return real.cuMemAllocFromPoolAsync_ptsz(request->address, request->size_bytes,
							 request->pool, request->stream);
	if (request->pool)
		return real.cuMemAllocFromPoolAsync(request->address, request->size_bytes,
						    request->pool, request->stream);
	if (request->is_per_thread)
		return real.cuMemAllocAsync_ptsz(request->address, request->size_bytes,
						 request->stream);
	return real.cuMemAllocAsync(request->address, request->size_bytes, request->stream);
}

static void give_back(const struct request *request, struct pool *pool)
{
	if (request->is_per_thread)
		real.cuMemFreeAsync_ptsz(*request->address, request->stream);
	else
		real.cuMemFreeAsync(*request->address, request->stream);
	if (real.cuMemPoolTrimTo)
		real.cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)pools_key(pool),
				     pools_charged_bytes(pool));
	pools_touch(pool);
	hook_settle(pool, NULL, true); /* what the stream has yet to give back counts till then */
}

static CUresult allocate_counted(const struct request *request, CUmemoryPool handle,
				 struct pool *pool)
{
	struct ledger_charge advance;
	CUresult cr = hook_reserve(pools_device(pool), growth(handle, request->size_bytes), &advance);
	if (cr != CUDA_SUCCESS)
		return cr;
	pools_begin_growth(pool);
	cr = call_driver(request);
	pools_touch(pool);
	int r = cr == CUDA_SUCCESS ? hook_settle(pool, &advance, false) : 0;
	if (r == -ENOMEM) {
		trim_pools(pools_device(pool));
		r = hook_settle(pool, &advance, false);
	}
	pools_end_growth(pool);
	if (cr != CUDA_SUCCESS) {
		ledger_cancel(&advance);
		hook_settle(pool, NULL, true);
		return cr;
	}
	if (r < 0)
		ledger_cancel(&advance);
	else
		r = pools_remember(pool, *request->address, request->size_bytes);
	if (r < 0) {
		give_back(request, pool);
		*request->address = 0;
	}
	return cu_from_errno(r);
}

static void note_recorded(const struct request *request, CUgraph graph)
{
	struct whereabouts there;
	struct pool *pool;
	if (context_of_stream(request->stream, &there) != CUDA_SUCCESS)
		return;
	struct pages_device *device = there.device;
	if (request->pool && hook_pool_of(request->pool, device, &pool) == 0)
		device = pools_device(pool);
	if (device) /* else of the host */
		hook_graph_note_alloc(graph, context_ordinal(device), *request->address,
				      request->size_bytes);
}

static CUresult allocate(const struct request *request)
{
	struct whereabouts there;
	uint64_t limit_bytes;
	CUgraph graph;
	if (is_capturing(request->stream, request->is_per_thread, &graph)) {
		CUresult recorded = call_driver(request);
		if (recorded == CUDA_SUCCESS) /* charged when the graph runs */
			note_recorded(request, graph);
		return recorded;
	}
	CUresult cr = context_of_stream(request->stream, &there);
	if (cr != CUDA_SUCCESS)
		return cr;
	int r = pages_device_limit(there.device, &limit_bytes);
	if (!request->address || r == -ENOENT)
		return call_driver(request);
	if (r < 0)
		return cu_from_errno(r);
	CUmemoryPool handle = request->pool;
	if (!handle && real.cuDeviceGetMemPool)
		cr = real.cuDeviceGetMemPool(&handle, there.ordinal);
	if (cr != CUDA_SUCCESS || !handle)
		return cr != CUDA_SUCCESS ? cr : CUDA_ERROR_NOT_SUPPORTED;
	struct pool *pool;
	r = hook_pool_of(handle, there.device, &pool);
	if (r < 0)
		return cu_from_errno(r);
	return pools_device(pool) ? allocate_counted(request, handle, pool) : call_driver(request);
}

HOOK_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size_bytes, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocAsync)
		return CUDA_ERROR_NOT_INITIALIZED;
	return allocate(&(struct request){address, size_bytes, NULL, stream, false});
}

HOOK_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size_bytes, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocAsync_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	return allocate(&(struct request){address, size_bytes, NULL, stream, true});
}

HOOK_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size_bytes,
					     CUmemoryPool pool, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocFromPoolAsync)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!pool)
		return real.cuMemAllocFromPoolAsync(address, size_bytes, pool, stream);
	return allocate(&(struct request){address, size_bytes, pool, stream, false});
}

HOOK_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t size_bytes,
						  CUmemoryPool pool, CUstream stream)
{
	if (!real_load(REAL_CUDA) || !real.cuMemAllocFromPoolAsync_ptsz)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!pool)
		return real.cuMemAllocFromPoolAsync_ptsz(address, size_bytes, pool, stream);
	return allocate(&(struct request){address, size_bytes, pool, stream, true});
}
