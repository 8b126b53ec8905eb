/* See engine.h. */
#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define LOOK_EVERY_NS 20000000ull
#define SPIN_BELOW_NS 60000ull
#define SLEEP_SHORT_NS 20000ull
#define BURY_EVERY_NS 10000000l /* of the host: while a shared clock stands still */

static bool is_clock(int *answer, const char *name)
{
	if (*answer < 0) {
		const char *clock = getenv(ENGINE_CLOCK_ENV);

		*answer = clock && strcmp(clock, name) == 0;
	}
	return *answer;
}

static bool is_shared(void)
{
	static int answer = -1;

	return is_clock(&answer, "shared");
}

bool engine_is_virtual(void)
{
	static int answer = -1;

	return is_clock(&answer, "virtual") || is_shared();
}

static uint64_t slice_ns(void)
{
	static uint64_t slice;

	if (slice == 0) {
		const char *us = getenv(ENGINE_SLICE_ENV);
		uint64_t given = us ? strtoull(us, NULL, 10) * 1000 : 0;

		slice = given ? given : ENGINE_SLICE_NS;
	}
	return slice;
}

/* Told is the last whole one: so figures are as old as one of them, and up to two. */
static uint64_t window_ns(void)
{
	static uint64_t window;

	if (window == 0) {
		const char *ms = getenv(ENGINE_WINDOW_ENV);
		uint64_t given = ms ? strtoull(ms, NULL, 10) * 1000000 : 0;

		window = given ? given : ENGINE_WINDOW_NS;
	}
	return window;
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t engine_now_ns(struct engine *engine)
{
	return engine_is_virtual() ? __atomic_load_n(&engine->now_ns, __ATOMIC_ACQUIRE) : monotonic_ns();
}

static void lock(struct engine *engine)
{
	if (pthread_mutex_lock(&engine->lock.mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&engine->lock.mutex);
}

static void unlock(struct engine *engine)
{
	pthread_mutex_unlock(&engine->lock.mutex);
}

static void init(struct engine *engine, const char *device)
{
	pthread_mutexattr_t attributes;

	memset(engine, 0, sizeof *engine);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&engine->lock.mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	engine->now_ns = engine->window_ns = engine_is_virtual() ? 1 : monotonic_ns();
	strncpy(engine->device, device, ENGINE_UUID - 1);
}

struct engine *engine_find(struct state *state, const char *device, bool create)
{
	struct engine *found = NULL;

	if (create && state_lock(state) < 0)
		return NULL;
	for (size_t i = 0; i < STATE_ENGINES && !found; i++) {
		struct engine *engine = &state->page->engines[i];

		if (strncmp(engine->device, device, ENGINE_UUID) == 0)
			found = engine;
		else if (create && engine->device[0] == '\0') {
			init(engine, device);
			found = engine;
		}
	}
	if (create)
		state_unlock(state);
	return found;
}

static bool has_work(const struct engine_channel *channel)
{
	return channel->owner && channel->queued_ns > channel->done_ns;
}

/* Work of the dead is gone with their contexts. */
static void bury(struct state *state, struct engine *engine)
{
	for (size_t i = 0; i < engine->channel_count; i++) {
		struct engine_channel *channel = &engine->channels[i];

		if (channel->owner && !state_owner_lives(state, channel->owner, channel, NULL))
			memset(channel, 0, sizeof *channel);
	}
}

struct engine_channel *engine_join(struct state *state, struct engine *engine)
{
	struct engine_channel *found = NULL;
	uint64_t me = state_fingerprint();

	lock(engine);
	bury(state, engine);
	for (size_t i = 0; i < ENGINE_CHANNELS && !found; i++)
		if (engine->channels[i].owner == me)
			found = &engine->channels[i];
	for (size_t i = 0; i < ENGINE_CHANNELS && !found; i++) {
		struct engine_channel *channel = &engine->channels[i];

		if (channel->owner || state_hold(state, channel) < 0)
			continue;
		memset(channel, 0, sizeof *channel);
		channel->pid = (uint32_t)getpid();
		if (i >= engine->channel_count)
			engine->channel_count = i + 1;
		__atomic_store_n(&channel->owner, me, __ATOMIC_RELEASE);
		found = channel;
	}
	unlock(engine);
	return found;
}

/* The windows up to `to` are over. */
static void roll(struct engine *engine, uint64_t to)
{
	uint64_t over = (to - engine->window_ns) / window_ns();

	if (over == 0)
		return;
	engine->was_busy_ns = over == 1 ? engine->busy_ns : 0;
	engine->busy_ns = 0;
	for (size_t i = 0; i < engine->channel_count; i++) {
		struct engine_channel *channel = &engine->channels[i];

		channel->was_busy_ns = over == 1 ? channel->busy_ns : 0;
		channel->busy_ns = 0;
	}
	engine->window_ns += over * window_ns();
}

static void note_run(struct engine_channel *channel, uint64_t start_ns, uint64_t length_ns)
{
	struct engine_run *last = &channel->runs[(channel->run_count - 1) % ENGINE_RUNS];

	if (channel->run_count && last->start_ns + last->length_ns == start_ns &&
	    last->position + last->length_ns == channel->done_ns) {
		last->length_ns += length_ns;
	} else {
		channel->runs[channel->run_count % ENGINE_RUNS] = (struct engine_run){
			.start_ns = start_ns, .position = channel->done_ns, .length_ns = length_ns};
		channel->run_count++;
	}
	/* Its owner looks without the lock. */
	__atomic_store_n(&channel->done_ns, channel->done_ns + length_ns, __ATOMIC_RELEASE);
	channel->busy_ns += length_ns;
}

/* The channel that runs now; a new one gets a new slice. NULL: none has work. */
static struct engine_channel *next_to_run(struct engine *engine, bool *ret_is_alone)
{
	struct engine_channel *current = &engine->channels[engine->turn % ENGINE_CHANNELS];
	struct engine_channel *other = NULL;

	for (size_t i = 1; i < engine->channel_count && !other; i++) {
		struct engine_channel *channel =
			&engine->channels[(engine->turn + i) % engine->channel_count];

		if (has_work(channel))
			other = channel;
	}
	*ret_is_alone = !other;
	if (has_work(current) && (engine->slice_left_ns > 0 || !other))
		return current;
	if (!other)
		return NULL;
	*ret_is_alone = !has_work(current);
	engine->turn = (uint64_t)(other - engine->channels);
	engine->slice_left_ns = slice_ns();
	return other;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Move the device up to `to`. Called with the lock held. */
static void advance(struct engine *engine, uint64_t to)
{
	while (engine->now_ns < to) {
		bool is_alone;
		struct engine_channel *channel = next_to_run(engine, &is_alone);

		if (!channel) {
			roll(engine, to);
			engine->now_ns = to;
			return;
		}
		uint64_t run = least(channel->queued_ns - channel->done_ns, to - engine->now_ns);

		run = least(run, engine->window_ns + window_ns() - engine->now_ns);
		if (!is_alone)
			run = least(run, engine->slice_left_ns);
		note_run(channel, engine->now_ns, run);
		engine->busy_ns += run;
		engine->total_busy_ns += run;
		engine->slice_left_ns -= least(run, engine->slice_left_ns);
		engine->now_ns += run;
		roll(engine, engine->now_ns);
	}
}

static void catch_up(struct state *state, struct engine *engine)
{
	if (engine_is_virtual())
		return;
	uint64_t now = monotonic_ns();

	advance(engine, now);
	if (now - engine->looked_ns > LOOK_EVERY_NS) {
		engine->looked_ns = now;
		bury(state, engine);
	}
}

uint64_t engine_submit(struct state *state, struct engine *engine, struct engine_channel *channel,
		       uint64_t duration_ns)
{
	lock(engine);
	catch_up(state, engine);
	uint64_t end = channel->queued_ns + duration_ns;

	__atomic_store_n(&channel->queued_ns, end, __ATOMIC_RELEASE);

	unlock(engine);
	return end;
}

bool engine_reached(struct state *state, struct engine *engine, struct engine_channel *channel,
		    uint64_t position, uint64_t *ret_left_ns)
{
	if (__atomic_load_n(&channel->done_ns, __ATOMIC_ACQUIRE) >= position)
		return true;
	lock(engine);
	catch_up(state, engine);
	bool is_there = channel->done_ns >= position;

	*ret_left_ns = is_there ? 0 : position - channel->done_ns;
	unlock(engine);
	return is_there;
}

/* A virtual clock is one for all devices. */
static void move_all(struct state *state, uint64_t to)
{
	for (size_t i = 0; i < STATE_ENGINES && state->page->engines[i].device[0]; i++) {
		struct engine *engine = &state->page->engines[i];

		lock(engine);
		advance(engine, to);
		unlock(engine);
	}
}

/* When the first of all who wait will wake; 0: one runs, or is about to. */
static uint64_t next_to_wake_ns(const struct engine *engine)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < engine->channel_count; i++) {
		const struct engine_channel *channel = &engine->channels[i];

		if (channel->owner && channel->wake_ns <= engine->now_ns)
			return 0;
		if (channel->owner)
			next_ns = least(next_ns, channel->wake_ns);
	}
	return next_ns;
}

static void sleep_shared(struct state *state, struct engine *engine, struct engine_channel *channel,
			 uint64_t ns)
{
	static const struct timespec patience = {.tv_nsec = BURY_EVERY_NS};

	lock(engine);
	uint64_t until_ns = engine->now_ns + ns;

	channel->wake_ns = until_ns;
	while (engine->now_ns < until_ns) {
		uint64_t next_ns = next_to_wake_ns(engine);
		uint32_t seen = engine->moved;

		if (next_ns) {
			advance(engine, next_ns);
			engine->moved++;
			syscall(SYS_futex, &engine->moved, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
			continue;
		}
		unlock(engine);
		bool is_late = syscall(SYS_futex, &engine->moved, FUTEX_WAIT, seen, &patience, NULL, 0) < 0 &&
			       errno == ETIMEDOUT;
		lock(engine);
		if (is_late) /* for one that has ended? */
			bury(state, engine);
	}
	channel->wake_ns = 0;
	unlock(engine);
}

void engine_sleep(struct state *state, struct engine *engine, struct engine_channel *channel, uint64_t ns)
{
	if (is_shared()) {
		sleep_shared(state, engine, channel, ns);
		return;
	}
	if (engine_is_virtual()) {
		lock(engine);
		uint64_t to = engine->now_ns + ns;

		unlock(engine);
		move_all(state, to);
		return;
	}
	if (ns < SPIN_BELOW_NS) {
		uint64_t until = monotonic_ns() + ns;

		while (monotonic_ns() < until)
			;
		return;
	}
	ns -= SLEEP_SHORT_NS;
	int slack = prctl(PR_GET_TIMERSLACK);

	prctl(PR_SET_TIMERSLACK, 1000ul);
	nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000ull),
				     .tv_nsec = (long)(ns % 1000000000ull)},
		  NULL);
	prctl(PR_SET_TIMERSLACK, (unsigned long)(slack > 0 ? slack : 50000));
}

uint64_t engine_time_of(struct engine *engine, struct engine_channel *channel, uint64_t position)
{
	uint64_t time = 0;

	lock(engine);
	uint64_t kept = least(channel->run_count, ENGINE_RUNS);

	for (uint64_t i = 0; i < kept; i++) {
		const struct engine_run *run =
			&channel->runs[(channel->run_count - 1 - i) % ENGINE_RUNS];

		time = run->start_ns; /* older than is kept: the oldest there is */
		if (position > run->position + run->length_ns) {
			time = run->start_ns + run->length_ns;
			break;
		}
		if (position > run->position) {
			time = run->start_ns + (position - run->position);
			break;
		}
	}
	unlock(engine);
	return time;
}

uint32_t engine_utilisation(struct state *state, struct engine *engine,
			    const struct engine_channel *channel)
{
	lock(engine);
	catch_up(state, engine);
	uint64_t busy_ns = channel ? channel->was_busy_ns : engine->was_busy_ns;

	unlock(engine);
	return (uint32_t)(least(busy_ns, window_ns()) * 1000 / window_ns());
}
