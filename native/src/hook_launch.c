/*
 * Launches: charged to the budget of the device that runs them, and held back while it is used up.
 *
 * Nothing is charged of what is captured: it does not run; the graph is, whenever it is launched.
 *
 * Closed: what has a cap and cannot be charged, because the usage page cannot be used, is refused, and so
 * is everything under a control page that never could be trusted. Either was said on stderr.
 */
#include "hook_launch.h"

#include "budget.h"
#include "costs.h"
#include "enforced.h"
#include "events.h"
#include "hooks.h"
#include "real.h"
#include "sampling.h"

#define REFILL_NS 1000000ull /* short kernels are let through in groups, not one by one */
#define FIRST_WAIT_NS 60000000ull         /* for what the first of a kind took */
#define FIRST_RUNNING_WAIT_NS 500000000ull /* the same once the device has begun with it */
#define FIRST_PAUSE_NS 20000              /* from look to look, growing */
#define COSTS_UNPROVEN_MAX_NS 1000000000ull /* what was not seen to end for so long was lost sight of */

#define STOP_PAUSE_NS 10000000ull /* from look to look, of who may not start at all */
#define AHEAD_NS 20000000ull      /* of what is queued under a rate of the moment */
#define AHEAD_WAIT_NS 60000000ull /* then the device is taken to be stuck */

__thread __attribute__((tls_model("initial-exec"))) uint32_t launch_until_look;
__thread __attribute__((tls_model("initial-exec"))) struct launch_looked launch_looked;

/* At which rate corrections are counted, also while nothing may start. */
static uint64_t paying(const struct pages_rate *rate)
{
	return rate->permille == HAMID_RATE_STOP ? 1000 : rate->permille;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void note_capped(CUdevice ordinal, bool is_capped)
{
	const uint64_t bit = 1ull << (ordinal & 63);
	const uint64_t capped = atomic_load_explicit(&launch_capped, memory_order_relaxed);
	if (is_capped && !(capped & bit))
		atomic_fetch_or(&launch_capped, bit);
	else if (!is_capped && (capped & bit))
		atomic_fetch_and(&launch_capped, ~bit);
}

/* From here on, launches may be let by without a look: not those of another device that has a cap. */
static void look_at_others(CUdevice ordinal, uint64_t now_ns)
{
	const uint64_t others = atomic_load_explicit(&launch_capped, memory_order_relaxed) & ~(1ull << ordinal);
	for (CUdevice other = 0; others >> other; other++) {
		struct pages_device *device;
		struct pages_rate rate;
		if ((others >> other & 1) && context_device(other, &device) == CUDA_SUCCESS &&
		    pages_device_rate(device, now_ns, &rate) == 0 &&
		    (!rate.permille ||
		     enforced_is_stronger(enforced_here(device->name, rate.percent, rate.flags))))
			note_capped(other, false);
		if (other == HAMID_DEVICES_MAX - 1) /* a shift by more is none */
			break;
	}
}

/* How the device may be used now; and whether launches have to look at all. */
static CUresult look(const struct whereabouts *there, uint64_t now_ns, struct pages_rate *ret_rate)
{
	const int r = pages_device_rate(there->device, now_ns, ret_rate);
	if (r < 0) {
		note_capped(there->ordinal, true);
		return CUDA_ERROR_NOT_PERMITTED;
	}
	const uint32_t enforced =
		enforced_here(there->device->name, ret_rate->percent, ret_rate->flags);
	uint16_t cell;
	if (enforced && ret_rate->permille)
		pages_device_cell(there->device, &cell); /* who has nothing charged is not in the page yet */
	pages_note_enforced(enforced);
	if (enforced_is_stronger(enforced))
		ret_rate->permille = 0;
	note_capped(there->ordinal, ret_rate->permille != 0);
	if (!ret_rate->permille)
		look_at_others(there->ordinal, now_ns);
	return CUDA_SUCCESS;
}

/*
 * How long the second of a kind waits for the first, at most: it may be that the first waits for the second, or for what
 * the host does then. What runs already seldom does, and two of what takes long are far too much.
 */
static uint64_t patience_ns(const struct measure_launch *launch, uint64_t waited_ns)
{
	return waited_ns > FIRST_WAIT_NS && measure_is_running(launch->there.ordinal, launch->kind) ?
		       FIRST_RUNNING_WAIT_NS :
		       FIRST_WAIT_NS;
}

/* What a launch will probably cost. The second of an unknown kind waits for what the first took, but not for ever. */
static uint64_t known_cost(struct measure_launch *launch, struct hamid_budget *budget,
			   const struct pages_rate *rate)
{
	const uint64_t started_ns = launch->now_ns;
	uint64_t pause_ns = FIRST_PAUSE_NS;
	for (;;) {
		measure_collect(&launch->there, budget, paying(rate), rate->is_contended);
		const uint64_t cost_ns = costs_get(launch->kind);
		if (cost_ns)
			return cost_ns;
		const uint64_t now_ns = launch->now_ns;
		const uint64_t first_ns = costs_first_ns(launch->kind, now_ns);
		if (!first_ns)
			return COSTS_UNKNOWN_NS;
		const uint64_t since_ns = now_ns - first_ns;
		if (since_ns > patience_ns(launch, since_ns)) /* it takes so much at least */
			return since_ns < COSTS_UNPROVEN_MAX_NS ? since_ns : COSTS_UNKNOWN_NS;
		if (now_ns - started_ns > FIRST_RUNNING_WAIT_NS)
			return COSTS_UNKNOWN_NS;
		budget_sleep(budget, pause_ns);
		pause_ns += pause_ns / 2;
		launch->now_ns = budget_now_ns();
	}
}

/*
 * Where rates change from moment to moment, no more is queued than is soon done: what is lent has to be given
 * back at once, and what a busy device has not done yet is no use of it. But nobody waits for ever: the
 * device may wait for what we hold back.
 */
static bool is_too_far_ahead(const struct whereabouts *there, uint64_t cost_ns, uint64_t rate,
			     uint64_t waited_ns)
{
	const uint64_t since_ns = measure_behind_since_ns(there->ordinal);
	const uint64_t two_ns = 2 * cost_ns * 1000 / (rate < 1000 ? rate : 1000);
	if (!since_ns || budget_now_ns() - since_ns < AHEAD_NS + two_ns)
		return false;
	if (waited_ns < AHEAD_WAIT_NS + two_ns)
		return true;
	measure_give_up(there->ordinal);
	return false;
}

/* How long it has to wait, at least; 0: it is charged. */
static uint64_t try_to_start(const struct measure_launch *launch, struct hamid_budget *budget,
			     const struct pages_rate *rate, uint64_t waited_ns)
{
	if (rate->permille == HAMID_RATE_STOP)
		return STOP_PAUSE_NS;
	if (rate->is_live &&
	    is_too_far_ahead(&launch->there, launch->charged_ns, rate->permille, waited_ns)) {
		__atomic_store_n(&budget->waited_ns, budget_now_ns(), __ATOMIC_RELAXED);
		return REFILL_NS;
	}
	return budget_try(budget, launch->now_ns, launch->charged_ns, rate->permille);
}

/* Charge the launch, waiting as long as it takes. An error, or no rate: it need not be charged any more. */
static CUresult wait_to_start(struct measure_launch *launch, struct hamid_budget *budget,
			      struct pages_rate *rate)
{
	const uint64_t started_ns = launch->now_ns;
	for (;;) {
		const uint64_t wait_ns =
			try_to_start(launch, budget, rate, launch->now_ns - started_ns);
		if (!wait_ns)
			return CUDA_SUCCESS;
		measure_close(launch);
		budget_want(budget, launch->now_ns);
		budget_sleep(budget, wait_ns > REFILL_NS ? wait_ns : REFILL_NS);
		launch->now_ns = budget_now_ns();
		const CUresult cr = look(&launch->there, launch->now_ns, rate);
		if (cr != CUDA_SUCCESS || !rate->permille)
			return cr;
		measure_collect(&launch->there, budget, paying(rate), rate->is_contended);
		const uint64_t now_known_ns = costs_get(launch->kind);
		if (now_known_ns)
			launch->charged_ns = now_known_ns;
	}
}

static void look_again_after(uint32_t launches, uint64_t now_ns)
{
	launch_until_look = launch_looked.until_look = launches;
	launch_looked.at_ns = now_ns;
}

void launch_look(CUstream stream)
{
	struct whereabouts there;
	struct pages_rate rate;
	const uint64_t now_ns = budget_now_ns();
	look_again_after(0, now_ns);
	if (context_of_stream(stream, &there) != CUDA_SUCCESS)
		return;
	look_again_after(LAUNCH_LOOK_EVERY, now_ns);
	look(&there, now_ns, &rate);
}

/* Of what is not always measured, its lot decides; then the next to be drawn has to be seen. */
static void draw(struct measure_launch *launch, uint32_t launches)
{
	launch->is_drawn = sampling_is_drawn(launch->there.ordinal, launches, launch->now_ns);
	look_again_after((uint32_t)smaller(LAUNCH_LOOK_EVERY, sampling_left()), launch->now_ns);
}

/* Of kinds of which nothing is known by averages, none starts that cannot be measured: for a while. */
static void wait_to_measure(struct measure_launch *launch, struct hamid_budget *budget,
			    const struct pages_rate *rate)
{
	const uint64_t started_ns = launch->now_ns;
	uint64_t pause_ns = FIRST_PAUSE_NS;
	while (costs_is_erratic(launch->kind) && measure_is_full(launch->there.ordinal) &&
	       launch->now_ns - started_ns < FIRST_WAIT_NS) {
		budget_sleep(budget, pause_ns);
		pause_ns += pause_ns / 2;
		launch->now_ns = budget_now_ns();
		measure_collect(&launch->there, budget, paying(rate), rate->is_contended);
	}
}

static void begin_charged(struct launch_ticket *ticket, bool may_take_credit)
{
	ticket->is_measured = measure_begin(&ticket->launch);
	launch_credit.launched_ns += ticket->launch.charged_ns;
	if (!ticket->is_measured && may_take_credit)
		launch_take_credit(ticket);
}

CUresult launch_admit(const struct launch_what *what, struct launch_ticket *ret_ticket)
{
	struct whereabouts there;
	struct pages_rate rate;
	const uint32_t launches = launch_looked.until_look - launch_until_look; /* since, with this one */
	ret_ticket->is_charged = false;
	look_again_after(0, 0);
	if (context_of_stream(what->stream, &there) != CUDA_SUCCESS)
		return CUDA_SUCCESS; /* the driver says what is wrong */
	struct measure_launch launch = {
		.there = there,
		.stream = what->stream,
		.is_thread_form = what->is_thread_form,
		.kind = costs_kind(what->handle, what->blocks),
		.now_ns = budget_now_ns(),
	};
	look_again_after(LAUNCH_LOOK_EVERY, launch.now_ns);
	CUresult cr = look(&there, launch.now_ns, &rate);
	if (cr != CUDA_SUCCESS || !rate.permille ||
	    events_is_captured(what->stream, what->is_thread_form))
		return cr;
	struct hamid_budget *budget = pages_device_budget(there.device);
	if (!budget)
		return CUDA_ERROR_NOT_PERMITTED;

	budget_want(budget, launch.now_ns);
	const bool may_take_credit = launch_give_credit_back(budget, paying(&rate));
	launch.charged_ns = known_cost(&launch, budget, &rate);
	cr = wait_to_start(&launch, budget, &rate);
	if (cr != CUDA_SUCCESS || !rate.permille)
		return cr;
	wait_to_measure(&launch, budget, &rate);
	draw(&launch, launches);
	*ret_ticket = (struct launch_ticket){
		.is_charged = true,
		.rate = rate.permille,
		.budget = budget,
		.launch = launch,
	};
	begin_charged(ret_ticket, may_take_credit);
	return CUDA_SUCCESS;
}

void launch_settle(struct launch_ticket *ticket, CUresult cr)
{
	if (ticket->is_measured)
		measure_end(&ticket->launch, cr == CUDA_SUCCESS);
	if (cr != CUDA_SUCCESS)
		budget_correct(ticket->budget, -(int64_t)ticket->launch.charged_ns, ticket->rate);
}

/* A grid that the driver will refuse may overflow here, to no harm. */
#define BLOCKS ((uint64_t)grid_x * grid_y * grid_z)

#define GRID \
	unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
		unsigned int block_y, unsigned int block_z
#define GRID_NAMES grid_x, grid_y, grid_z, block_x, block_y, block_z

LAUNCH_HOOK(cuLaunchKernel, (CUfunction function, GRID, unsigned int shared_bytes, CUstream stream,
	     void **params, void **extra),
	    (function, GRID_NAMES, shared_bytes, stream, params, extra), function, BLOCKS, stream, false)

LAUNCH_HOOK(cuLaunchKernel_ptsz, (CUfunction function, GRID, unsigned int shared_bytes, CUstream stream,
	     void **params, void **extra),
	    (function, GRID_NAMES, shared_bytes, stream, params, extra), function, BLOCKS, stream, true)

LAUNCH_HOOK(cuLaunchCooperativeKernel, (CUfunction function, GRID, unsigned int shared_bytes, CUstream stream,
	     void **params),
	    (function, GRID_NAMES, shared_bytes, stream, params), function, BLOCKS, stream, false)

LAUNCH_HOOK(cuLaunchCooperativeKernel_ptsz, (CUfunction function, GRID, unsigned int shared_bytes, CUstream stream,
	     void **params),
	    (function, GRID_NAMES, shared_bytes, stream, params), function, BLOCKS, stream, true)

static uint64_t blocks_of(const CUlaunchConfig *config)
{
	return config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0;
}

LAUNCH_HOOK(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **params,
	     void **extra),
	    (config, function, params, extra), function, blocks_of(config),
	    config ? config->hStream : NULL, false)

LAUNCH_HOOK(cuLaunchKernelEx_ptsz, (const CUlaunchConfig *config, CUfunction function, void **params,
	     void **extra),
	    (config, function, params, extra), function, blocks_of(config),
	    config ? config->hStream : NULL, true)

/* The forms of before CUDA 4: blocks of threads were set on the function. */
LAUNCH_HOOK(cuLaunch, (CUfunction function), (function), function, 1, NULL, false)

LAUNCH_HOOK(cuLaunchGrid, (CUfunction function, int width, int height),
	    (function, width, height), function, (uint64_t)(unsigned int)width * (unsigned int)height,
	    NULL, false)

LAUNCH_HOOK(cuLaunchGridAsync, (CUfunction function, int width, int height, CUstream stream),
	    (function, width, height, stream), function,
	    (uint64_t)(unsigned int)width * (unsigned int)height, stream, false)

/* Only once all may start: none is measured while it waits for another device's budget. */
static void measure_there(struct launch_ticket *ticket)
{
	if (!ticket->is_charged)
		return;
	ticket->launch.now_ns = budget_now_ns();
	ticket->is_measured = measure_begin(&ticket->launch);
}

static CUresult end_several(struct launch_ticket *tickets, unsigned int count, CUresult cr)
{
	for (unsigned int i = 0; i < count; i++)
		launch_end(&tickets[i], cr);
	return cr;
}

/* Each part is charged to its device. */
HOOK_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS_v1 *launches,
							  unsigned int count, unsigned int flags)
{
	struct launch_ticket tickets[HAMID_DEVICES_MAX];
	if (!real_load(REAL_CUDA) || !real.cuLaunchCooperativeKernelMultiDevice)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!launches)
		return real.cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
	if (count > HAMID_DEVICES_MAX) /* more than there are */
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		const struct launch_what what = {
			.handle = launches[i].function,
			.blocks = (uint64_t)launches[i].gridDimX * launches[i].gridDimY *
				  launches[i].gridDimZ,
			.stream = launches[i].hStream,
		};
		const CUresult cr = launch_begin(&what, &tickets[i]);
		if (cr != CUDA_SUCCESS)
			return end_several(tickets, i, cr);
		if (tickets[i].is_charged && tickets[i].is_measured)
			measure_end(&tickets[i].launch, false);
		tickets[i].is_measured = false;
	}
	for (unsigned int i = 0; i < count; i++)
		measure_there(&tickets[i]);
	return end_several(tickets, count,
			   real.cuLaunchCooperativeKernelMultiDevice(launches, count, flags));
}
