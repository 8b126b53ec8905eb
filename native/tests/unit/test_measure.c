/*
 * measure.c, on a driver of few lines whose time passes when the test says so. Built of the source, for the other
 * units have no driver.
 */
#include "events.c"
#include "measure.c"

#include <pthread.h>

#include "test.h"

#define US 1000ull
#define MS 1000000ull
#define KERNEL_NS (5 * US)
#define EVENTS 512

static const CUcontext context = (CUcontext)0x1000, other_context = (CUcontext)0x2000;
static const CUstream one = (CUstream)0x10, other = (CUstream)0x20;

struct real_driver real;
static uint64_t now_ns = 1000 * MS, idle_at_ns;
static CUstream gone_stream;
static long recorded_in_gone;

static struct {
	uint64_t at_ns;
} events[EVENTS];
static size_t event_count, destroyed_count;

/* The clock that budget.c takes for the simulated driver's. */
bool hamid_sim_is_virtual(void);
uint64_t hamid_sim_now_ns(void);
void hamid_sim_sleep(uint64_t ns);

bool hamid_sim_is_virtual(void)
{
	return true;
}

uint64_t hamid_sim_now_ns(void)
{
	return now_ns;
}

void hamid_sim_sleep(uint64_t ns)
{
	now_ns += ns;
}

static CUcontext current;
static CUcontext gone_context, created_in;
static uint64_t gone_count = 1;

uint64_t context_gone_count(void)
{
	return gone_count;
}

bool context_is_gone(CUcontext asked, uint64_t since)
{
	return gone_count != since && asked == gone_context;
}

static CUresult get_current(CUcontext *ret_context)
{
	*ret_context = current;
	return CUDA_SUCCESS;
}

static CUcontext below; /* what was current before one was pushed */

static CUresult push(CUcontext pushed)
{
	below = current;
	current = pushed;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *popped)
{
	*popped = current;
	current = below;
	return CUDA_SUCCESS;
}

static CUresult create(CUevent *event, unsigned int flags)
{
	(void)flags;
	created_in = current;
	*event = (CUevent)&events[event_count++ % EVENTS];
	return CUDA_SUCCESS;
}

static uint64_t *at_of(CUevent event)
{
	return (uint64_t *)event;
}

static CUresult destroy(CUevent event)
{
	(void)event;
	destroyed_count++;
	return CUDA_SUCCESS;
}

static uint64_t held_up_ns; /* once, right behind an event */

static unsigned int held_up_before; /* the how manyth event from now */

static CUresult record_event(CUevent event, CUstream stream)
{
	if (held_up_before && --held_up_before == 0)
		now_ns += 20 * MS;
	recorded_in_gone += stream == gone_stream;
	*at_of(event) = idle_at_ns > now_ns ? idle_at_ns : now_ns;
	now_ns += held_up_ns;
	held_up_ns = 0;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	return *at_of(event) <= now_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
	*milliseconds = (float)((double)(*at_of(end) - *at_of(start)) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static struct hamid_budget budget;
static CUcontext launched_in; /* the stream's */

static void collect(bool is_contended)
{
	const struct whereabouts there = {.context = context};
	measure_collect(&there, &budget, 1000, is_contended);
}

static bool is_drawn = true;

/* A launch that the driver has `before_ns` after it was asked, and is through with after `behind_ns` more. */
static bool launch_slowly(CUstream stream, uint64_t kind, uint64_t kernel_ns, uint64_t before_ns,
			  uint64_t behind_ns)
{
	const struct measure_launch launch = {
		.there = {.context = launched_in},
		.stream = stream,
		.kind = kind,
		.charged_ns = costs_get(kind) ? costs_get(kind) : COSTS_UNKNOWN_NS,
		.now_ns = now_ns,
		.is_drawn = is_drawn,
	};
	const bool is_measured = measure_begin(&launch);
	now_ns += before_ns;
	idle_at_ns = (idle_at_ns > now_ns ? idle_at_ns : now_ns) + kernel_ns;
	now_ns += behind_ns;
	if (is_measured)
		measure_end(&launch, true);
	return is_measured;
}

static bool launch(CUstream stream, uint64_t kind)
{
	return launch_slowly(stream, kind, KERNEL_NS, 0, 0);
}

static uint64_t known_kind(const void *handle)
{
	const uint64_t kind = costs_kind(handle, 132);
	costs_learn(kind, KERNEL_NS, COSTS_EXACTLY);
	return kind;
}

/* All done, and so long ago that short kernels are measured again. */
static void wait(void)
{
	now_ns = (idle_at_ns > now_ns ? idle_at_ns : now_ns) + 2 * MS;
	collect(false);
}

/* The next batch is of one launch, and nothing runs beside it. */
static void be_single(void)
{
	wait();
	now_ns += 30 * MS;
	devices[0].is_open = false;
	devices[0].is_single = true;
}

static void check_costs(void)
{
	static const int first, second, third, fourth;

	CHECK("what nobody has measured is measured at once")
	{
		const uint64_t kind = costs_kind(&first, 132);
		EXPECT(launch_slowly(one, kind, 3 * MS, 0, 0));
		wait();
		EXPECT_EQUAL(costs_get(kind), 3 * MS);
	}

	CHECK("of what nobody has measured it is told whether the device has begun with it")
	{
		static const int waiting;
		const uint64_t kind = costs_kind(&waiting, 132);
		be_single();
		EXPECT(!measure_is_running(0, kind));
		idle_at_ns = now_ns + 3 * MS;
		EXPECT(launch_slowly(one, kind, 5 * MS, 0, 0));
		EXPECT(!measure_is_running(0, kind));
		now_ns += 4 * MS;
		collect(false);
		EXPECT(measure_is_running(0, kind));
		wait();
		EXPECT(!measure_is_running(0, kind));
		EXPECT_EQUAL(costs_get(kind), 5 * MS);
	}

	CHECK("a busy device says exactly what a launch takes")
	{
		const uint64_t kind = known_kind(&second);
		be_single();
		idle_at_ns = now_ns + 10 * MS;
		EXPECT(launch_slowly(one, kind, 9 * US, 3 * US, 3 * US));
		wait();
		EXPECT(costs_get(kind) >= 5990 && costs_get(kind) <= 6010);
	}

	CHECK("what an idle device waited for the host is taken off, as far as it is known")
	{
		const uint64_t kind = known_kind(&third);
		be_single();
		EXPECT(launch_slowly(one, kind, KERNEL_NS, 1500, 500));
		wait();
		EXPECT(costs_get(kind) >= KERNEL_NS - 10 && costs_get(kind) <= KERNEL_NS + 10);
	}

	CHECK("a host that was held up makes nothing expensive")
	{
		const uint64_t kind = known_kind(&fourth);
		be_single();
		EXPECT(launch_slowly(one, kind, KERNEL_NS, 8 * MS, 1 * US));
		wait();
		EXPECT(costs_get(kind) <= KERNEL_NS + KERNEL_NS / 60);
	}
}

static void check_host(void)
{
	static const int brief, lasting;

	CHECK("a host that was held up right behind an event makes nothing expensive, and is charged nothing")
	{
		const uint64_t kinds[] = {known_kind(&brief), costs_kind(&lasting, 132)};
		costs_learn(kinds[1], MS, COSTS_EXACTLY);
		for (int i = 0; i < 2; i++) {
			const uint32_t cost_ns = costs_get(kinds[i]);
			be_single();
			const uint64_t charged_ns = budget.charged_ns;
			held_up_ns = 20 * MS;
			EXPECT(launch_slowly(one, kinds[i], cost_ns, 1500, 500));
			wait();
			EXPECT(costs_get(kinds[i]) <= cost_ns + cost_ns / 60);
			EXPECT_EQUAL(budget.charged_ns, charged_ns);
		}
	}

	CHECK("nor one that was held up between a launch and the event behind it")
	{
		const uint64_t kind = known_kind(&brief);
		be_single();
		const uint64_t charged_ns = budget.charged_ns, cost_ns = costs_get(kind);
		held_up_before = 2;
		EXPECT(launch_slowly(one, kind, KERNEL_NS, 1500, 500));
		wait();
		EXPECT(costs_get(kind) <= cost_ns + cost_ns / 60);
		EXPECT_EQUAL(budget.charged_ns, charged_ns);
	}

	CHECK("what really takes longer is learnt and charged at once")
	{
		const uint64_t kind = costs_kind(&lasting, 132);
		be_single();
		const uint64_t charged_ns = budget.charged_ns, cost_ns = costs_get(kind);
		EXPECT(launch_slowly(one, kind, 9 * MS, 1500, 500));
		wait();
		EXPECT(costs_get(kind) > 2 * MS);
		EXPECT(budget.charged_ns - charged_ns > 9 * MS - cost_ns - MS / 10);
	}
}

static void check_lots(void)
{
	static const int steady, changing, beside;

	CHECK("of short launches those are measured that are drawn")
	{
		const uint64_t kind = known_kind(&steady);
		be_single();
		is_drawn = false;
		EXPECT(!launch(one, kind));
		is_drawn = true;
		EXPECT(launch(one, kind));
	}

	CHECK("of what takes now this, now that, each is measured from then on, and charged what it takes")
	{
		const uint64_t kind = known_kind(&changing);
		be_single();
		EXPECT(launch_slowly(one, kind, 3 * MS, 1500, 500));
		wait();
		EXPECT(costs_is_erratic(kind));
		is_drawn = false;
		for (int i = 0; i < 100; i++) {
			const uint64_t charged_ns = budget.charged_ns, cost_ns = costs_get(kind);
			const uint64_t took_ns = i % 10 ? KERNEL_NS : 3 * MS;
			EXPECT(launch_slowly(one, kind, took_ns, 1500, 500));
			wait();
			const uint64_t all_ns = budget.charged_ns - charged_ns + cost_ns;
			EXPECT(all_ns + 1000 >= took_ns && all_ns <= took_ns + 1000);
		}
		is_drawn = true;
	}

	CHECK("nor is it hidden beside another stream")
	{
		const uint64_t kind = known_kind(&beside);
		be_single();
		launch_slowly(other, kind, KERNEL_NS, 0, 0);
		now_ns += MS;
		EXPECT(launch_slowly(one, kind, 3 * MS, 10 * US, 500));
		wait();
		EXPECT(costs_is_erratic(kind));
	}
}

static void check_streams(void)
{
	static const int handle;
	const uint64_t kind = known_kind(&handle);

	CHECK("no event is recorded in a stream but that of the launch at hand: another may be gone")
	{
		wait();
		for (int i = 0; i < 40; i++) {
			gone_stream = NULL;
			for (int j = 0; j < 3; j++)
				launch(one, kind);
			gone_stream = one; /* the program has ended it */
			launch(other, kind);
			now_ns += 2 * MS;
		}
		gone_stream = NULL;
		EXPECT_EQUAL(recorded_in_gone, 0);
	}

	CHECK("who changes streams with every launch is measured all the same, at most at what others took")
	{
		for (int i = 0; i < 40; i++) {
			wait();
			launch_slowly(one, kind, 4 * US, 0, 0);
			launch_slowly(other, kind, 4 * US, 0, 0);
			launch_slowly(one, kind, 4 * US, 0, 0);
		}
		EXPECT(costs_get(kind) >= 3990 && costs_get(kind) <= 4100);
	}
}

static bool launch_per_thread(uint64_t kind)
{
	const struct measure_launch launch = {
		.there = {.context = context},
		.is_thread_form = true,
		.kind = kind,
		.charged_ns = KERNEL_NS,
		.now_ns = now_ns,
		.is_drawn = true,
	};
	const bool is_measured = measure_begin(&launch);
	if (is_measured)
		measure_end(&launch, true);
	return is_measured;
}

static void *in_thread(void *kind)
{
	launch_per_thread(*(const uint64_t *)kind);
	return NULL;
}

static void check_threads(void)
{
	static const int handle;
	uint64_t kind = known_kind(&handle);
	pthread_t thread;

	CHECK("the streams that threads have for themselves are told apart")
	{
		wait();
		devices[0].is_open = devices[0].is_single = false;
		EXPECT(launch_per_thread(kind));
		EXPECT(launch_per_thread(kind));
		EXPECT(devices[0].is_open && devices[0].pairs[devices[0].head % PAIRS].count == 2);
		EXPECT_EQUAL(pthread_create(&thread, NULL, in_thread, &kind), 0);
		pthread_join(thread, NULL);
		EXPECT(!devices[0].is_open);
	}
}

static void launch_contended(uint64_t kind, uint64_t kernel_ns)
{
	be_single();
	EXPECT(launch_slowly(one, kind, kernel_ns, 0, 0));
	now_ns += 2 * MS;
	collect(true);
}

static void check_contexts(void)
{
	static const int handle;
	const uint64_t kind = known_kind(&handle);

	CHECK("who changes contexts leaves no events behind")
	{
		const size_t before = event_count - destroyed_count;
		for (int i = 0; i < 200; i++) {
			launched_in = current = i % 2 ? context : other_context;
			be_single();
			EXPECT(launch(one, kind));
		}
		EXPECT(event_count - destroyed_count <= before + 2 * PAIRS);
	}

	CHECK("a stream's context need not be the current one, and is not afterwards")
	{
		launched_in = other_context;
		current = context;
		memset(devices[0].pairs, 0, sizeof devices[0].pairs);
		be_single();
		EXPECT(launch(one, kind));
		EXPECT(created_in == other_context && current == context);
		launched_in = context;
		current = NULL;
		be_single();
		EXPECT(launch(one, kind));
		EXPECT(created_in == context && !current);
	}

	CHECK("with a context only its own events are gone")
	{
		launched_in = current = other_context;
		for (int i = 0; i < PAIRS; i++) {
			be_single();
			EXPECT(launch(one, kind));
		}
		const size_t made = event_count;
		gone_context = context;
		gone_count++;
		be_single();
		EXPECT(launch(one, kind));
		EXPECT_EQUAL(event_count, made);
		gone_context = other_context;
		gone_count++;
		be_single();
		EXPECT(launch(one, kind));
		EXPECT_EQUAL(event_count, made + 2);
	}

	CHECK("a batch of a context that is gone meanwhile says nothing")
	{
		launched_in = current = context;
		be_single();
		const uint32_t cost_ns = costs_get(kind);
		EXPECT(launch_slowly(one, kind, 80 * US, 0, 0));
		gone_context = context;
		gone_count++;
		wait();
		EXPECT_EQUAL(costs_get(kind), cost_ns);
	}

	CHECK("where others are busy a kind's cost does not grow, and falls")
	{
		const uint32_t before = costs_get(kind);
		launch_contended(kind, 90 * US);
		EXPECT(costs_get(kind) <= before);
		launch_contended(kind, US);
		EXPECT(costs_get(kind) < before);
	}
}

int main(void)
{
	launched_in = current = context;
	real = (struct real_driver){
		.cuCtxGetCurrent = get_current,
		.cuCtxPopCurrent_v2 = pop,
		.cuCtxPushCurrent_v2 = push,
		.cuEventCreate = create,
		.cuEventDestroy_v2 = destroy,
		.cuEventRecord = record_event,
		.cuEventQuery = query,
		.cuEventElapsedTime = elapsed,
		.cuStreamIsCapturing = is_capturing,
	};
	check_costs();
	check_host();
	check_lots();
	check_streams();
	check_contexts();
	check_threads();
	return test_report();
}
