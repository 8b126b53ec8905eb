#include "measure.h"

#include <stdatomic.h>
#include <string.h>

#include "budget.h"
#include "costs.h"
#include "events.h"
#include "real.h"

#define PAIRS 32        /* per device, on their way */
#define LAUNCHES 16     /* in a batch; every other batch is of one, for streams that are often empty */
#define SHORT_NS 100000 /* what takes longer is a batch of its own */
#define GAP_NS 20000    /* a stream that gets nothing for so long may have been idle */
#define PROMPT_NS 4000  /* the host was not held up between an event and the launch behind it */
#define ALONE_NS 20000000 /* a stream beside which nobody launched for so long has the device for itself */
#define BESIDE_EVERY_NS 1000000 /* from one batch of short launches to the next, of several streams */
#define SURPRISE 8      /* what took so many times what was thought is of a kind that may take anything */
#define PER_THREAD_STREAM ((CUstream)2)

struct pair {
	CUevent start, end;
	CUcontext context;
	uint32_t count;
	bool is_bound; /* the device may have waited for us in it, or done something else */
	bool is_amid;  /* others' launches surely are in it */
	uint64_t early_ns; /* its start was reached so long before the launch */
	uint64_t kinds[LAUNCHES];
	uint64_t costs_ns[LAUNCHES]; /* as charged; never 0 */
	uint64_t charged_ns;
	uint64_t begun_ns;
	uint64_t host_ns; /* from before its start until the driver had all of it */
};

struct place {
	CUcontext context;
	const void *stream;
};

static struct measurements {
	atomic_flag is_taken;
	bool is_open; /* the batch at `head` has begun */
	bool is_single; /* the next one is of one launch */
	struct place of_batch, seen; /* where it runs; and the last launch, measured or not */
	uint64_t changed_ns; /* when the last launch was elsewhere */
	uint64_t last_ns;  /* when the driver had its last launch; or its start */
	uint64_t ended_ns; /* when the last batch was */
	uint64_t contexts_gone;
	uint32_t head, tail; /* pairs between them are on their way */
	bool has_before;     /* the one before tail was read, and keeps its events */
	_Atomic uint64_t behind_since_ns; /* see measure_behind_since_ns() */
	_Atomic uint32_t given_up; /* tail + 1 when it was */
	struct pair pairs[PAIRS];
} devices[HAMID_DEVICES_MAX];

/* Their events went with them, and handles come again. */
static void forget_gone(struct measurements *all)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (!all->pairs[i].start || !context_is_gone(all->pairs[i].context, all->contexts_gone))
			continue;
		memset(&all->pairs[i], 0, sizeof all->pairs[i]);
		if (i == all->head % PAIRS)
			all->is_open = false;
		if (i == (all->tail - 1) % PAIRS)
			all->has_before = false;
	}
}

static struct measurements *take(CUdevice ordinal)
{
	if (ordinal < 0 || ordinal >= HAMID_DEVICES_MAX || !events_are_possible() ||
	    atomic_flag_test_and_set_explicit(&devices[ordinal].is_taken, memory_order_acquire))
		return NULL;
	struct measurements *all = &devices[ordinal];
	const uint64_t gone = context_gone_count();
	if (all->contexts_gone != gone) {
		forget_gone(all);
		all->contexts_gone = gone;
	}
	return all;
}

static void give_back(struct measurements *all)
{
	atomic_flag_clear_explicit(&all->is_taken, memory_order_release);
}

static void end_events(const struct pair *pair)
{
	real.cuEventDestroy_v2(pair->start);
	real.cuEventDestroy_v2(pair->end);
}

static bool make_events(struct pair *pair, CUcontext context)
{
	CUevent start, end;
	if (pair->start && pair->context == context)
		return true;
	if (!events_make_two(context, &start, &end))
		return false;
	if (pair->start)
		end_events(pair);
	*pair = (struct pair){.start = start, .end = end, .context = context};
	return true;
}

/* Streams that threads have for themselves go by one handle, and those that contexts have by another. */
static struct place place_of(const struct measure_launch *launch)
{
	static __thread __attribute__((tls_model("initial-exec"))) char own;
	const bool is_threads = launch->stream == PER_THREAD_STREAM ||
				(!launch->stream && launch->is_thread_form);
	return (struct place){
		.context = launch->there.context,
		.stream = is_threads ? (const void *)&own : launch->stream,
	};
}

static bool is_same(struct place a, struct place b)
{
	return a.context == b.context && a.stream == b.stream;
}

/* So short that not each is measured; of those that take now this, now that, each is. */
static bool is_short(uint64_t kind)
{
	const uint32_t cost_ns = costs_get(kind);
	return cost_ns && cost_ns < SHORT_NS && !costs_is_erratic(kind);
}

static bool is_alone(const struct measurements *all, uint64_t now_ns)
{
	return now_ns - all->changed_ns >= ALONE_NS;
}

static bool open_batch(struct measurements *all, const struct measure_launch *launch)
{
	struct pair *pair = &all->pairs[all->head % PAIRS];
	/* Beside other streams only who comes to an idle device learns much, as one does first thing after a while. */
	const bool is_beside = is_short(launch->kind) && !is_alone(all, launch->now_ns);
	const bool is_fresh = launch->now_ns - all->ended_ns >= BESIDE_EVERY_NS;
	if (all->head - all->tail == PAIRS - 1 ||
	    (is_short(launch->kind) && !launch->is_drawn && !(is_beside && is_fresh)) ||
	    !make_events(pair, launch->there.context) ||
	    events_record(launch->stream, launch->is_thread_form, pair->start) != CUDA_SUCCESS)
		return false;
	pair->count = 0;
	pair->charged_ns = 0;
	pair->is_amid = is_beside && !is_fresh;
	pair->begun_ns = launch->now_ns;
	all->of_batch = place_of(launch);
	all->last_ns = budget_now_ns();
	all->is_open = true;
	return true;
}

/* Does it follow the batch that is open, in the same stream? */
static bool is_of_batch(const struct measurements *all, const struct measure_launch *launch)
{
	return is_same(all->of_batch, place_of(launch)) && launch->now_ns - all->last_ns <= GAP_NS;
}

/*
 * In the stream of the launch at hand: another may be gone by now, or be captured. `host_ns`: of a single launch, from
 * its start until the driver had it.
 */
static void close_batch(struct measurements *all, const struct measure_launch *launch, uint64_t host_ns)
{
	struct pair *pair = &all->pairs[all->head % PAIRS];
	const uint64_t kind = pair->kinds[pair->count - 1];
	all->is_open = false;
	const bool is_erratic = costs_is_erratic(kind);
	const bool is_idle = (is_erratic || is_short(kind)) && events_is_reached(pair->start);
	pair->is_bound = !is_erratic && (is_idle || (is_short(kind) && !is_alone(all, all->last_ns)));
	pair->early_ns = 0;
	if (is_idle && pair->count == 1 && (is_erratic || host_ns <= PROMPT_NS)) {
		/* An idle device waited for most of that: calls tell it at their end. */
		pair->early_ns = host_ns / 4 * 3;
		pair->is_bound = !is_erratic && !is_alone(all, all->last_ns);
	}
	all->head += events_record(launch->stream, launch->is_thread_form, pair->end) == CUDA_SUCCESS;
	all->ended_ns = budget_now_ns();
	pair->host_ns = all->ended_ns - pair->begun_ns;
	all->is_single = is_idle || !all->is_single; /* what comes one by one tells nothing in batches */
}

/*
 * Who changes streams, or leaves them empty, is measured launch by launch; not at once, for what was launched
 * just now may be in the way.
 */
static void drop_batch(struct measurements *all, uint64_t now_ns)
{
	all->is_open = false;
	all->is_single = true;
	all->ended_ns = now_ns;
}

bool measure_begin(const struct measure_launch *launch)
{
	struct measurements *all = take(launch->there.ordinal);
	if (!all)
		return false;
	if (!is_same(all->seen, place_of(launch)))
		all->changed_ns = launch->now_ns;
	all->seen = place_of(launch);
	if (all->is_open && !is_of_batch(all, launch))
		drop_batch(all, launch->now_ns); /* what comes between would be measured, too */
	if (!all->is_open && !open_batch(all, launch)) {
		give_back(all);
		return false;
	}
	return true;
}

void measure_close(const struct measure_launch *launch)
{
	struct measurements *all = take(launch->there.ordinal);
	if (!all)
		return;
	if (all->is_open && is_of_batch(all, launch))
		close_batch(all, launch, UINT64_MAX);
	else if (all->is_open)
		drop_batch(all, launch->now_ns);
	give_back(all);
}

void measure_end(const struct measure_launch *launch, bool is_launched)
{
	struct measurements *all = &devices[launch->there.ordinal];
	struct pair *pair = &all->pairs[all->head % PAIRS];
	if (is_launched) {
		const uint64_t before_ns = all->last_ns;
		pair->kinds[pair->count] = launch->kind;
		pair->costs_ns[pair->count++] = launch->charged_ns;
		pair->charged_ns += launch->charged_ns;
		all->last_ns = budget_now_ns();
		if (pair->count == LAUNCHES || !is_short(launch->kind) || all->is_single)
			close_batch(all, launch, all->last_ns - before_ns);
	} else {
		all->is_open = false;
	}
	give_back(all);
}

/* Each launch took its share of what all took, in proportion to what it was thought to take. */
static void learn(const struct pair *pair, uint64_t took_ns, bool is_contended)
{
	const enum costs_word word = !pair->is_bound ? COSTS_EXACTLY :
				     pair->early_ns ? COSTS_ABOUT_AT_MOST :
						      COSTS_AT_MOST;
	for (uint32_t i = 0; i < pair->count; i++) {
		if (i && pair->kinds[i] == pair->kinds[i - 1])
			continue;
		const double share = (double)pair->costs_ns[i] / (double)pair->charged_ns;
		const uint64_t cost_ns = (uint64_t)((double)took_ns * share);
		/*
		 * Others' work is in it, or more of the host's time than in single launches: it may be less, and
		 * whether it is more, these say, or NVML's figures.
		 */
		const bool is_loose = is_contended || (pair->is_bound && (pair->count > 1 || pair->is_amid));
		const uint64_t known_ns = is_loose ? costs_get(pair->kinds[i]) : 0;
		if (!known_ns || cost_ns < known_ns)
			costs_learn(pair->kinds[i], cost_ns, word);
	}
}

static uint64_t elapsed_ns(CUevent from, CUevent to, CUresult *ret_cr)
{
	float milliseconds = 0;
	*ret_cr = real.cuEventElapsedTime(&milliseconds, from, to);
	return milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

/*
 * What the batch took: from its start, or from the end of the one before, whichever was later. For streams
 * run beside each other, or wait for each other, and the device's time is to be charged once.
 */
static CUresult read_pair(const struct measurements *all, const struct pair *pair, uint64_t *ret_took_ns)
{
	CUresult cr;
	uint64_t took_ns = elapsed_ns(pair->start, pair->end, &cr);
	if (cr != CUDA_SUCCESS)
		return cr;
	took_ns -= pair->early_ns < took_ns / 2 ? pair->early_ns : took_ns / 2;
	const struct pair *before = &all->pairs[(all->tail - 1) % PAIRS];
	if (all->has_before && before->context == pair->context) {
		const uint64_t since_ns = elapsed_ns(before->end, pair->end, &cr);
		if (cr == CUDA_SUCCESS && since_ns < took_ns)
			took_ns = since_ns;
	}
	*ret_took_ns = took_ns;
	return CUDA_SUCCESS;
}

/* Was it as long as it was because the host was held up behind its start? */
static bool is_host_s(const struct pair *pair, uint64_t took_ns)
{
	return took_ns > 2 * pair->charged_ns && pair->host_ns > took_ns / 2;
}

static void judge(struct pair *pair, uint64_t took_ns, bool is_contended)
{
	const bool is_surprise = took_ns >= SHORT_NS && took_ns / SURPRISE > pair->charged_ns;
	if (is_contended || is_host_s(pair, took_ns))
		pair->is_bound = true;
	else
		for (uint32_t i = 0; is_surprise && i < pair->count; i++)
			if (!i || pair->kinds[i] != pair->kinds[i - 1])
				costs_be_erratic(pair->kinds[i]);
}

void measure_collect(const struct whereabouts *there, struct hamid_budget *budget, uint64_t rate,
		     bool is_contended)
{
	struct measurements *all = take(there->ordinal);
	if (!all)
		return;
	int64_t more_ns = 0;
	const int mode = all->head != all->tail ? events_relax(EVENTS_RELAXED) : EVENTS_RELAXED;
	for (; all->tail != all->head; all->tail++) {
		struct pair *pair = &all->pairs[all->tail % PAIRS];
		const CUresult cr = pair->start ? real.cuEventQuery(pair->end) : CUDA_ERROR_INVALID_CONTEXT;
		if (cr == CUDA_ERROR_NOT_READY)
			break;
		uint64_t took_ns = 0;
		if (cr != CUDA_SUCCESS || read_pair(all, pair, &took_ns) != CUDA_SUCCESS) {
			pair->start = NULL; /* not to be used again */
			all->has_before = false;
			continue;
		}
		all->has_before = true;
		judge(pair, took_ns, is_contended);
		learn(pair, took_ns, is_contended);
		if (!pair->is_bound || took_ns < pair->charged_ns)
			more_ns += (int64_t)took_ns - (int64_t)pair->charged_ns;
	}
	if (mode != EVENTS_RELAXED)
		events_relax(mode);
	const bool is_behind = all->tail != all->head && atomic_load(&all->given_up) != all->tail + 1;
	atomic_store_explicit(&all->behind_since_ns,
			      is_behind ? all->pairs[all->tail % PAIRS].begun_ns : 0,
			      memory_order_relaxed);
	give_back(all);
	if (more_ns)
		budget_correct(budget, more_ns, rate);
}

bool measure_is_running(CUdevice ordinal, uint64_t kind)
{
	struct measurements *all = take(ordinal);
	bool is_running = false;
	if (!all)
		return false;
	for (uint32_t i = all->tail; i != all->head && !is_running; i++) {
		const struct pair *pair = &all->pairs[i % PAIRS];
		is_running = pair->start && pair->count == 1 && pair->kinds[0] == kind &&
			     events_is_reached(pair->start);
	}
	give_back(all);
	return is_running;
}

bool measure_is_full(CUdevice ordinal)
{
	struct measurements *all = take(ordinal);
	if (!all)
		return false;
	const bool is_full = all->head - all->tail == PAIRS - 1;
	give_back(all);
	return is_full;
}

uint64_t measure_behind_since_ns(CUdevice ordinal)
{
	if (ordinal < 0 || ordinal >= HAMID_DEVICES_MAX)
		return 0;
	return atomic_load_explicit(&devices[ordinal].behind_since_ns, memory_order_relaxed);
}

void measure_give_up(CUdevice ordinal)
{
	struct measurements *all = take(ordinal);
	if (!all)
		return;
	atomic_store(&all->given_up, all->tail + 1);
	atomic_store(&all->behind_since_ns, 0);
	give_back(all);
}
