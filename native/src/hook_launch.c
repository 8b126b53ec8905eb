/*
 * Launches: charged to the budget of the device that runs them, and held back while it is used up.
 *
 * Nothing is charged of what is captured: it does not run; the graph is, whenever it is launched.
 *
 * Open: what cannot be charged, because the usage page cannot be used, is launched unchecked; that page
 * is said to be damaged where memory is asked for.
 */
#include "hook_launch.h"

#include "budget.h"
#include "costs.h"
#include "hooks.h"
#include "real.h"

#define CREDIT_NS 200000ull   /* of GPU time, that a thread takes at once */
#define REFILL_NS 1000000ull /* short kernels are let through in groups, not one by one */
#define FIRST_WAIT_NS 60000000ull         /* for what the first of a kind took */
#define FIRST_PAUSE_NS 20000              /* from look to look, growing */
#define COSTS_UNPROVEN_MAX_NS 1000000000ull /* what was not seen to end for so long was lost sight of */

_Atomic uint64_t launch_capped;
__thread __attribute__((tls_model("initial-exec"))) uint32_t launch_until_look;

/* Time that a thread has taken out of a device's budget. It is lost with the thread. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
	CUcontext context;
	CUstream stream;
	uint64_t *word; /* compared, for it may be unmapped after a fork */
	uint64_t left_ns;
} credit;

/*
 * Only for the device that it was taken of: told by the stream, or, for those that every context has, by
 * the context. What is captured meanwhile is paid as well; that little does not matter.
 */
bool launch_from_credit(const struct launch_what *what)
{
	CUcontext current;
	if (!credit.left_ns || what->stream != credit.stream)
		return false;
	const uint64_t cost_ns = costs_get(costs_kind(what->handle, what->blocks));
	if (!cost_ns || cost_ns > credit.left_ns)
		return false;
	if ((uintptr_t)what->stream <= 2 &&
	    (real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != credit.context))
		return false;
	credit.left_ns -= cost_ns;
	return true;
}

/* After a launch that nobody measures: when a batch is open, each has to be seen. */
static void take_credit(const struct launch_ticket *ticket)
{
	const struct measure_launch *launch = &ticket->launch;
	const uint64_t enough_ns = LAUNCH_LOOK_EVERY * launch->charged_ns;
	const uint64_t wanted_ns = enough_ns < CREDIT_NS ? enough_ns : CREDIT_NS;
	if (launch->charged_ns > CREDIT_NS / 4 ||
	    budget_try(ticket->word, wanted_ns, ticket->percent) > 0)
		return;
	credit.context = launch->there.context;
	credit.stream = launch->stream;
	credit.word = ticket->word;
	credit.left_ns = wanted_ns;
}

static void give_credit_back(uint64_t *word, uint32_t percent)
{
	if (credit.left_ns && credit.word == word)
		budget_correct(word, -(int64_t)credit.left_ns, percent);
	credit.left_ns = 0;
}

/* What the control page says of the device now; and whether launches have to look at all. */
static uint32_t percent_of(const struct whereabouts *there)
{
	const uint64_t bit = 1ull << (there->ordinal & 63);
	const uint32_t percent = pages_device_percent(there->device);
	const uint64_t capped = atomic_load_explicit(&launch_capped, memory_order_relaxed);
	if (percent && !(capped & bit))
		atomic_fetch_or(&launch_capped, bit);
	else if (!percent && (capped & bit))
		atomic_fetch_and(&launch_capped, ~bit);
	return percent;
}

/*
 * What a launch will probably cost. The second of an unknown kind waits for what the first took, but
 * not for long: it may be that the first waits for the second.
 */
static uint64_t known_cost(const struct whereabouts *there, uint64_t kind, uint64_t *word,
			   uint32_t percent)
{
	uint64_t now_ns = budget_now_ns(), pause_ns = FIRST_PAUSE_NS;
	const uint64_t started_ns = now_ns;
	for (;;) {
		measure_collect(there, word, percent);
		const uint64_t cost_ns = costs_get(kind);
		if (cost_ns)
			return cost_ns;
		const uint64_t first_ns = costs_first_ns(kind, now_ns);
		if (first_ns == now_ns || now_ns - started_ns > FIRST_WAIT_NS)
			return COSTS_UNKNOWN_NS;
		if (now_ns - first_ns > FIRST_WAIT_NS)
			return now_ns - first_ns < COSTS_UNPROVEN_MAX_NS ? now_ns - first_ns :
									   COSTS_UNKNOWN_NS;
		budget_sleep(word, pause_ns);
		pause_ns += pause_ns / 2;
		now_ns = budget_now_ns();
	}
}

void launch_admit(const struct launch_what *what, struct launch_ticket *ret_ticket)
{
	struct whereabouts there;
	launch_until_look = LAUNCH_LOOK_EVERY;
	if (context_of_stream(what->stream, &there) != CUDA_SUCCESS)
		return; /* the driver says what is wrong */
	uint32_t percent = percent_of(&there);
	uint64_t *word = percent ? pages_device_budget(there.device) : NULL;
	if (!word || measure_is_captured(what->stream, what->is_thread_form))
		return;

	give_credit_back(word, percent);
	const uint64_t kind = costs_kind(what->handle, what->blocks);
	struct measure_launch launch = {
		.there = there,
		.stream = what->stream,
		.is_thread_form = what->is_thread_form,
		.kind = kind,
		.now_ns = budget_now_ns(),
	};
	uint64_t wait_ns, cost_ns = known_cost(&there, kind, word, percent);
	while ((wait_ns = budget_try(word, cost_ns, percent)) > 0) {
		measure_close(&launch);
		budget_sleep(word, wait_ns > REFILL_NS ? wait_ns : REFILL_NS);
		percent = percent_of(&there);
		if (!percent)
			return;
		measure_collect(&there, word, percent);
		const uint64_t now_known_ns = costs_get(kind);
		if (now_known_ns)
			cost_ns = now_known_ns;
	}
	launch.charged_ns = cost_ns;
	launch.now_ns = budget_now_ns();
	*ret_ticket = (struct launch_ticket){
		.is_charged = true,
		.percent = percent,
		.word = word,
		.launch = launch,
	};
	ret_ticket->is_measured = measure_begin(&ret_ticket->launch);
	if (!ret_ticket->is_measured)
		take_credit(ret_ticket);
}

void launch_settle(struct launch_ticket *ticket, CUresult cr)
{
	if (ticket->is_measured)
		measure_end(&ticket->launch, cr == CUDA_SUCCESS);
	if (cr != CUDA_SUCCESS)
		budget_correct(ticket->word, -(int64_t)ticket->launch.charged_ns, ticket->percent);
}

/* Run `call` of the real `symbol` as one launch of a function. */
#define LAUNCH(symbol, call, function_, blocks_, stream_, is_thread) \
	do { \
		if (!real_load(REAL_CUDA) || !real.symbol) \
			return CUDA_ERROR_NOT_INITIALIZED; \
		const struct launch_what what = { \
			.handle = (function_), \
			.blocks = (blocks_), \
			.stream = (stream_), \
			.is_thread_form = (is_thread), \
		}; \
		struct launch_ticket ticket; \
		launch_begin(&what, &ticket); \
		return launch_end(&ticket, real.symbol call); \
	} while (0)

/* A grid that the driver will refuse may overflow here, to no harm. */
#define BLOCKS ((uint64_t)grid_x * grid_y * grid_z)

#define GRID \
	unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
		unsigned int block_y, unsigned int block_z
#define GRID_NAMES grid_x, grid_y, grid_z, block_x, block_y, block_z

HOOK_EXPORT CUresult cuLaunchKernel(CUfunction function, GRID, unsigned int shared_bytes,
				    CUstream stream, void **params, void **extra)
{
	LAUNCH(cuLaunchKernel, (function, GRID_NAMES, shared_bytes, stream, params, extra), function,
	       BLOCKS, stream, false);
}

HOOK_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, GRID, unsigned int shared_bytes,
					 CUstream stream, void **params, void **extra)
{
	LAUNCH(cuLaunchKernel_ptsz, (function, GRID_NAMES, shared_bytes, stream, params, extra),
	       function, BLOCKS, stream, true);
}

HOOK_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, GRID, unsigned int shared_bytes,
					       CUstream stream, void **params)
{
	LAUNCH(cuLaunchCooperativeKernel, (function, GRID_NAMES, shared_bytes, stream, params),
	       function, BLOCKS, stream, false);
}

HOOK_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, GRID,
						    unsigned int shared_bytes, CUstream stream,
						    void **params)
{
	LAUNCH(cuLaunchCooperativeKernel_ptsz, (function, GRID_NAMES, shared_bytes, stream, params),
	       function, BLOCKS, stream, true);
}

static uint64_t blocks_of(const CUlaunchConfig *config)
{
	return config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0;
}

HOOK_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
				      void **params, void **extra)
{
	LAUNCH(cuLaunchKernelEx, (config, function, params, extra), function, blocks_of(config),
	       config ? config->hStream : NULL, false);
}

HOOK_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
					   void **params, void **extra)
{
	LAUNCH(cuLaunchKernelEx_ptsz, (config, function, params, extra), function, blocks_of(config),
	       config ? config->hStream : NULL, true);
}

/* The forms of before CUDA 4: blocks of threads were set on the function. */
HOOK_EXPORT CUresult cuLaunch(CUfunction function)
{
	LAUNCH(cuLaunch, (function), function, 1, NULL, false);
}

HOOK_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	LAUNCH(cuLaunchGrid, (function, width, height), function,
	       (uint64_t)(unsigned int)width * (unsigned int)height, NULL, false);
}

HOOK_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	LAUNCH(cuLaunchGridAsync, (function, width, height, stream), function,
	       (uint64_t)(unsigned int)width * (unsigned int)height, stream, false);
}

/* Each part is charged to its device. None is measured: it waits for the others. */
HOOK_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS_v1 *launches,
							  unsigned int count, unsigned int flags)
{
	if (!real_load(REAL_CUDA) || !real.cuLaunchCooperativeKernelMultiDevice)
		return CUDA_ERROR_NOT_INITIALIZED;
	for (unsigned int i = 0; launches && i < count; i++) {
		const struct launch_what what = {
			.handle = launches[i].function,
			.blocks = (uint64_t)launches[i].gridDimX * launches[i].gridDimY *
				  launches[i].gridDimZ,
			.stream = launches[i].hStream,
		};
		struct launch_ticket ticket;
		launch_begin(&what, &ticket);
		if (ticket.is_charged && ticket.is_measured)
			measure_end(&ticket.launch, false);
	}
	return real.cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}
