/* Contexts: a stack per thread, primary contexts with a count of their users, what each costs. */
#include "context.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primaries[SIM_DEVICES_MAX];
static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;

static const size_t first_limits[CONTEXT_LIMITS] = {
	1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0, 0,
};

CUresult context_current(CUcontext *ret_context)
{
	CUcontext current = depth ? stack[depth - 1] : NULL;

	if (!current || !current->is_alive)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = current->part_of ? current->part_of : current;
	return CUDA_SUCCESS;
}

CUcontext context_primary(CUdevice device)
{
	CUcontext primary = &primaries[device];

	pthread_mutex_lock(&mutex);
	if (!primary->is_primary) {
		primary->object.kind = OBJECT_CONTEXT;
		primary->device = device;
		primary->is_primary = object_register(&primary->object);
	}
	pthread_mutex_unlock(&mutex);
	return primary;
}

CUresult context_or_current(CUcontext context, CUcontext *ret_context)
{
	if (!context)
		return context_current(ret_context);
	if (!object_is(OBJECT_CONTEXT, context) || !context->is_alive)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = context->part_of ? context->part_of : context;
	return CUDA_SUCCESS;
}

CUresult sim_enter_context(const char *symbol, CUcontext *ret_context)
{
	CUresult cr = sim_enter(symbol);

	return cr == CUDA_SUCCESS ? context_current(ret_context) : cr;
}

/* Give a context its cost and an empty heap. Called with the mutex held. */
static CUresult wake(CUcontext context, CUdevice device)
{
	static unsigned long long last_id;
	const struct sim_device *on = sim_device(device);
	CUresult cr = sim_take(on, on->context_bytes);

	if (cr != CUDA_SUCCESS)
		return cr;
	context->object.kind = OBJECT_CONTEXT;
	context->device = device;
	context->id = ++last_id;
	context->cost_bytes = on->context_bytes;
	context->peers = 0;
	context->heap = (struct heap){
		.device = device, .grain = HEAP_GRAIN, .shared_at_most = HEAP_GRAIN / 2};
	memcpy(context->limits, first_limits, sizeof first_limits);
	context->is_alive = true;
	return CUDA_SUCCESS;
}

/* Free all that goes with it. Called without the mutex. */
static void put_to_rest(CUcontext context)
{
	storage_drop_context(context);
	stream_drop_context(context);
	module_drop_context(context);
	array_drop_context(context);
	managed_drop_context(context);
	space_lock();
	heap_drop(&context->heap);
	space_unlock();
	sim_give_back(sim_device(context->device), context->cost_bytes);
	context->cost_bytes = 0;
}

static CUresult create(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_VALUE;
	CUcontext made = object_new(OBJECT_CONTEXT, sizeof *made, NULL);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&mutex);
	CUresult cr = wake(made, device);

	pthread_mutex_unlock(&mutex);
	if (cr != CUDA_SUCCESS) {
		object_delete(OBJECT_CONTEXT, made);
		return cr;
	}
	made->flags = flags;
	stack[depth++] = made;
	*context = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	SIM_ENTER();
	return create(context, flags, device);
}

/* With an affinity to part of the multiprocessors, which are not told apart here. */
SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *context, const void *affinities, int count,
				   unsigned int flags, CUdevice device)
{
	SIM_ENTER();
	if (count > 0 && affinities)
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(context, flags, device);
}

SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *context, const void *params, unsigned int flags,
				   CUdevice device)
{
	(void)params;
	SIM_ENTER();
	return create(context, flags, device);
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	SIM_ENTER();
	if (!object_is(OBJECT_CONTEXT, context) || context->is_primary || context->part_of)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&mutex);
	bool was_alive = context->is_alive;

	context->is_alive = false;
	pthread_mutex_unlock(&mutex);
	if (!was_alive)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth && stack[depth - 1] == context)
		depth--;
	put_to_rest(context);
	return CUDA_SUCCESS;
}

/* --- the first forms: nobody attaches, so to detach is to destroy --- */

SIM_EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	return cuCtxCreate_v2(context, flags, device);
}

SIM_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
	return cuCtxDestroy_v2(context);
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext context)
{
	return cuCtxDestroy_v2(context);
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	SIM_ENTER();
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	SIM_ENTER();
	if (!context) {
		depth -= depth > 0;
		return CUDA_SUCCESS;
	}
	if (!object_is(OBJECT_CONTEXT, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth == 0)
		depth = 1;
	stack[depth - 1] = context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	SIM_ENTER();
	if (!object_is(OBJECT_CONTEXT, context) || depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	SIM_ENTER();
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (context)
		*context = stack[depth];
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	SIM_ENTER();
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	CUcontext primary = context_primary(device);
	CUresult cr = CUDA_SUCCESS;

	pthread_mutex_lock(&mutex);
	if (!primary->is_alive)
		cr = wake(primary, device);
	primary->users += cr == CUDA_SUCCESS;
	pthread_mutex_unlock(&mutex);
	if (cr == CUDA_SUCCESS)
		*context = primary;
	return cr;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	CUcontext primary = &primaries[device];

	pthread_mutex_lock(&mutex);
	bool was_active = primary->users > 0;

	primary->users -= was_active;
	bool is_last = was_active && primary->users == 0 && primary->is_alive;

	if (is_last)
		primary->is_alive = false;
	pthread_mutex_unlock(&mutex);
	if (is_last)
		put_to_rest(primary);
	return was_active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

/* All memory goes and the context begins anew; who has retained it, has it still. */
SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	CUcontext primary = &primaries[device];
	CUresult cr = CUDA_SUCCESS;

	if (!primary->is_alive)
		return CUDA_SUCCESS;
	put_to_rest(primary);
	pthread_mutex_lock(&mutex);
	primary->is_alive = false;
	if (primary->users > 0)
		cr = wake(primary, device);
	pthread_mutex_unlock(&mutex);
	return cr;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags)
		*flags = primaries[device].flags;
	if (active)
		*active = primaries[device].users > 0;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	primaries[device].flags = flags;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
