/*
 * Memory that graphs allocate when they run. The driver keeps it in a pool per device, which is
 * charged like any other (pools.c): before the first launch in the amount that the graph needs at
 * least (hook_graph_build.c) and the pool has not idle, and after every launch in what it has.
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

struct launch {
	struct pool *pool; /* NULL: no graph memory in this process */
	CUgraphExec exec;
	uint64_t least_bytes; /* 0: launched before, or nothing known */
	struct ledger_charge advance;
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
	return least_bytes > idle ? least_bytes - idle : 0;
}

static CUresult begin(CUgraphExec exec, CUstream stream, struct launch *ret_launch)
{
	struct whereabouts there;
	*ret_launch = (struct launch){.exec = exec};
	if (!hook_graph_memory_in_use() || context_of_stream(stream, &there) != CUDA_SUCCESS)
		return CUDA_SUCCESS; /* the driver says what is wrong */
	struct pool *pool;
	int r = pools_get(POOL_GRAPH, (uint64_t)there.ordinal + 1, there.device, &pool);
	if (r < 0)
		return cu_from_errno(r);
	const uint64_t least_bytes = hook_graph_take_least(exec);
	CUresult cr = hook_reserve(there.device, growth(there.ordinal, least_bytes),
				   &ret_launch->advance);
	if (cr != CUDA_SUCCESS) {
		hook_graph_put_back_least(exec, least_bytes);
		return cr;
	}
	ret_launch->pool = pool;
	ret_launch->least_bytes = least_bytes;
	return CUDA_SUCCESS;
}

static CUresult end(const struct launch *launch, CUresult cr)
{
	if (!launch->pool)
		return cr;
	pools_touch(launch->pool);
	if (cr == CUDA_SUCCESS) {
		hook_settle(launch->pool, &launch->advance, true);
	} else {
		ledger_cancel(&launch->advance);
		hook_graph_put_back_least(launch->exec, launch->least_bytes);
		hook_settle(launch->pool, NULL, true);
	}
	return cr;
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

static CUresult upload_graph(graph_call **call, CUgraphExec exec, CUstream stream)
{
	struct launch launch;
	if (!real_load(REAL_CUDA) || !*call)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = begin(exec, stream, &launch);
	return cr == CUDA_SUCCESS ? end(&launch, (*call)(exec, stream)) : cr;
}

HOOK_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return upload_graph(&real.cuGraphUpload, exec, stream);
}

HOOK_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return upload_graph(&real.cuGraphUpload_ptsz, exec, stream);
}

HOOK_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	if (!real_load(REAL_CUDA) || !real.cuDeviceGraphMemTrim)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuDeviceGraphMemTrim(device);
	hook_settle_pools();
	return cr;
}
