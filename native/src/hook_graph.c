/*
 * Memory that graphs allocate when they run. The driver keeps it in a pool per device, which is
 * charged like any other (pools.c): before the first launch in the amount that the graph needs of the
 * device at least (hook_graph_build.c) and the pool has not idle, and after every launch in what it has.
 *
 * What a graph takes beyond its least is known only when it has run: it is charged then, even above
 * the limit, and nothing more is granted until it is below.
 *
 * A process without such nodes pays one load per launch.
 */
#include "context.h"
#include "errors.h"
#include "hook_graph.h"
#include "hook_launch.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

#define GRAIN_BYTES (2ull << 20) /* in which the driver takes of a device */

/* What a launch takes of one device. */
struct part {
	struct pool *pool;
	CUdevice ordinal;
	uint64_t least_bytes; /* 0: launched before, or nothing known */
	struct ledger_charge advance;
};

struct launch {
	CUgraphExec exec;
	unsigned int count; /* 0: no graph memory in this process */
	struct part parts[HAMID_DEVICES_MAX];
};

/* How much more the device's pool has to have. */
static uint64_t growth(CUdevice ordinal, uint64_t least_bytes)
{
	cuuint64_t reserved = 0, used = 0;
	if (!least_bytes || !real.cuDeviceGetGraphMemAttribute)
		return least_bytes;
	if (real.cuDeviceGetGraphMemAttribute(ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					      &reserved) != CUDA_SUCCESS ||
	    real.cuDeviceGetGraphMemAttribute(ordinal, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) !=
		    CUDA_SUCCESS)
		return least_bytes;
	const uint64_t idle = reserved > used ? reserved - used : 0;
	const uint64_t more = least_bytes > idle ? least_bytes - idle : 0;
	return more > UINT64_MAX - GRAIN_BYTES ? more : (more + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

/* Room may be made by giving back what the pool has idle: then it has to grow by more. */
static CUresult reserve_growth(struct pages_device *device, CUdevice ordinal, uint64_t least_bytes,
			       struct ledger_charge *ret_advance)
{
	const uint64_t bytes = growth(ordinal, least_bytes);
	CUresult cr = hook_reserve(device, bytes, ret_advance);
	const uint64_t now_bytes = growth(ordinal, least_bytes);
	if (cr != CUDA_SUCCESS || now_bytes <= bytes)
		return cr;
	cr = hook_resize(ret_advance, now_bytes);
	if (cr != CUDA_SUCCESS) {
		ledger_cancel(ret_advance);
		ret_advance->cell = LEDGER_UNCOUNTED;
	}
	return cr;
}

/*
 * Nothing may be known of what it takes (child graphs): then the stream's own device at least must not be over its
 * limit.
 */
static CUresult begin_part(CUgraphExec exec, CUdevice ordinal, bool is_own, struct part *ret_part)
{
	struct pages_device *device;
	CUresult cr = context_device(ordinal, &device);
	if (cr != CUDA_SUCCESS)
		return cr;
	ret_part->ordinal = ordinal;
	int r = pools_get(POOL_GRAPH, (uint64_t)ordinal + 1, device, &ret_part->pool);
	if (r < 0)
		return cu_from_errno(r);
	ret_part->least_bytes = hook_graph_take_least(exec, ordinal);
	ret_part->advance = (struct ledger_charge){.cell = LEDGER_UNCOUNTED};
	if (!ret_part->least_bytes && !is_own)
		return CUDA_SUCCESS;
	cr = reserve_growth(device, ordinal, ret_part->least_bytes, &ret_part->advance);
	if (cr != CUDA_SUCCESS)
		hook_graph_put_back_least(exec, ordinal, ret_part->least_bytes);
	return cr;
}

static CUresult end(const struct launch *launch, CUresult cr)
{
	for (unsigned int i = 0; i < launch->count; i++) {
		const struct part *part = &launch->parts[i];
		pools_touch(part->pool);
		if (cr == CUDA_SUCCESS) {
			hook_settle(part->pool, &part->advance, true);
		} else {
			ledger_cancel(&part->advance);
			hook_graph_put_back_least(launch->exec, part->ordinal, part->least_bytes);
			hook_settle(part->pool, NULL, true);
		}
	}
	return cr;
}

static CUresult begin(CUgraphExec exec, CUstream stream, struct launch *ret_launch)
{
	struct whereabouts there;
	ret_launch->exec = exec;
	ret_launch->count = 0;
	if (!hook_graph_devices() || context_of_stream(stream, &there) != CUDA_SUCCESS)
		return CUDA_SUCCESS; /* the driver says what is wrong */
	HOOK_GRAPH_EACH(ordinal, hook_graph_devices()) {
		CUresult cr = begin_part(exec, ordinal, ordinal == there.ordinal,
					 &ret_launch->parts[ret_launch->count]);
		if (cr != CUDA_SUCCESS)
			return end(ret_launch, cr);
		ret_launch->count++;
	}
	return CUDA_SUCCESS;
}

typedef CUresult graph_call(CUgraphExec, CUstream);

/* `call`: where the driver's own is, once it is loaded. */
static CUresult launch_graph(graph_call **call, CUgraphExec exec, CUstream stream, bool is_thread_form)
{
	struct launch launch;
	if (!real_load(REAL_CUDA) || !*call)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = begin(exec, stream, &launch);
	if (cr != CUDA_SUCCESS)
		return cr;
	const struct launch_what what = {
		.handle = exec,
		.stream = stream,
		.is_thread_form = is_thread_form,
	};
	struct launch_ticket ticket;
	cr = launch_begin(&what, &ticket);
	if (cr == CUDA_SUCCESS)
		cr = launch_end(&ticket, (*call)(exec, stream));
	return end(&launch, cr);
}

HOOK_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch_graph(&real.cuGraphLaunch, exec, stream, false);
}

HOOK_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch_graph(&real.cuGraphLaunch_ptsz, exec, stream, true);
}

CUresult hook_graph_upload(CUgraphExec exec, CUstream stream, bool is_thread_form)
{
	struct launch launch;
	graph_call **call = is_thread_form ? &real.cuGraphUpload_ptsz : &real.cuGraphUpload;
	if (!real_load(REAL_CUDA) || !*call)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = begin(exec, stream, &launch);
	return cr == CUDA_SUCCESS ? end(&launch, (*call)(exec, stream)) : cr;
}

HOOK_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return hook_graph_upload(exec, stream, false);
}

HOOK_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return hook_graph_upload(exec, stream, true);
}

HOOK_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDeviceGraphMemTrim)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuDeviceGraphMemTrim(device);
	hook_settle_pools();
	return cr;
}
