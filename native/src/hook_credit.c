/*
 * GPU time that a thread takes out of its device's budget at once, so that most short launches have nobody to ask.
 */
#include "budget.h"
#include "costs.h"
#include "hook_launch.h"

#define CREDIT_NS 200000ull /* of GPU time, that a thread takes at once */

__thread __attribute__((tls_model("initial-exec"))) struct launch_credit launch_credit;

bool launch_is_in_context(void)
{
	CUcontext current;
	return real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == launch_credit.context;
}

/*
 * Only for the device that it was taken of: told by the stream, or, for those that every context has, by
 * the context. What is captured meanwhile is paid as well; that little does not matter.
 */
bool launch_from_credit(const void *handle, uint64_t blocks, CUstream stream)
{
	struct launch_credit *credit = &launch_credit;
	if (stream != credit->stream)
		return false;
	if (handle != credit->handle || blocks != credit->blocks) {
		const uint64_t kind = costs_kind(handle, blocks);
		credit->cost_ns = costs_is_erratic(kind) ? 0 : costs_get(kind);
		credit->handle = handle;
		credit->blocks = blocks;
	}
	if (!credit->cost_ns || credit->cost_ns > credit->left_ns || !launch_is_there(stream))
		return false;
	credit->left_ns -= credit->cost_ns;
	return true;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * After a launch that nobody measures: when a batch is open, each has to be seen. A quarter of what the thread has
 * launched so far, for what it has left at its end is lost: so nothing for who starts a thread for each launch.
 */
void launch_take_credit(const struct launch_ticket *ticket)
{
	const struct measure_launch *launch = &ticket->launch;
	const uint64_t wanted_ns = smaller(smaller(launch_credit.launched_ns / 4,
						   LAUNCH_LOOK_EVERY * launch->charged_ns), CREDIT_NS);
	if (wanted_ns < launch->charged_ns || launch->charged_ns > CREDIT_NS / 4 ||
	    budget_try(ticket->budget, launch->now_ns, wanted_ns, ticket->rate) > 0)
		return;
	launch_credit.stream = launch->stream;
	launch_credit.context = launch->there.context;
	launch_credit.left_ns = launch_credit.taken_ns = wanted_ns;
	launch_credit.budget = ticket->budget;
}

bool launch_give_credit_back(struct hamid_budget *budget, uint64_t rate)
{
	const uint64_t used_ns = launch_credit.taken_ns - launch_credit.left_ns;
	const bool is_useless = launch_credit.taken_ns && !used_ns;
	if (launch_credit.left_ns && launch_credit.budget == budget)
		budget_correct(budget, -(int64_t)launch_credit.left_ns, rate);
	launch_credit.launched_ns = smaller(launch_credit.launched_ns + used_ns, 4 * CREDIT_NS);
	launch_credit.left_ns = launch_credit.taken_ns = 0;
	launch_credit.cost_ns = 0;
	launch_credit.handle = NULL;
	return !is_useless;
}
