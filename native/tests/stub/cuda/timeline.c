/* See timeline.h. Where there is no shared account, the engine is this process's own. */
#include "timeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "table.h"

#define LAUNCHES_AT_MOST 1024
#define WATCHED_AT_MOST 4096

struct timeline {
	pthread_mutex_t mutex;
	struct state *state;
	struct engine *engine;
	struct engine_channel *channel;
	uint64_t ends[LAUNCHES_AT_MOST]; /* of the last launches, in a ring */
	uint64_t launches;
	struct table watched; /* events that have not been reached */
};

static struct timeline lines[SIM_DEVICES_MAX];
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A page like the shared one, for a process that counts alone. */
static struct state *private_state(void)
{
	static struct state alone;

	if (!alone.page) {
		void *page = space_map(sizeof *alone.page, 0, PROT_READ | PROT_WRITE, 0);

		if (!page)
			return NULL;
		pthread_mutex_init(&alone.mutex, NULL);
		alone.fd = memfd_create("hamid-sim-alone", MFD_CLOEXEC);
		alone.page = page;
	}
	return &alone;
}

static bool open_line(struct timeline *line, CUdevice device)
{
	pthread_mutex_lock(&open_mutex);
	if (!line->channel) {
		struct state *state = sim_account() ? sim_account() : private_state();
		struct engine *engine =
			state ? engine_find(state, sim_device(device)->uuid, true) : NULL;
		struct engine_channel *channel = engine ? engine_join(state, engine) : NULL;

		line->state = state;
		line->engine = engine;
		pthread_mutex_init(&line->mutex, NULL);
		__atomic_store_n(&line->channel, channel, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&open_mutex);
	return line->channel != NULL;
}

/* NULL: there is no room in the engine, and nothing takes time. */
static struct timeline *line_of(CUdevice device)
{
	struct timeline *line = &lines[device];

	if (__atomic_load_n(&line->channel, __ATOMIC_ACQUIRE) || open_line(line, device))
		return line;
	return NULL;
}

static void wait_for(struct timeline *line, uint64_t position)
{
	uint64_t left_ns;

	while (!engine_reached(line->state, line->engine, line->channel, position, &left_ns))
		engine_sleep(line->state, line->engine, line->channel, left_ns);
}

/* Note for events that were reached since when. Called with the line's mutex held. */
static void settle(struct timeline *line)
{
	uint64_t done = __atomic_load_n(&line->channel->done_ns, __ATOMIC_ACQUIRE);
	CUevent event;
	size_t at = 0;

	while (line->watched.count && (event = table_next(&line->watched, &at))) {
		if (event->position > done)
			continue;
		event->reached_ns = engine_time_of(line->engine, line->channel, event->position);
		table_remove(&line->watched, (uint64_t)(uintptr_t)event);
		at = 0;
	}
}

uint64_t timeline_submit(CUdevice device, uint64_t duration_ns)
{
	struct timeline *line = line_of(device);

	if (!line)
		return 0;
	pthread_mutex_lock(&line->mutex);
	uint64_t *end = &line->ends[line->launches++ % LAUNCHES_AT_MOST];
	uint64_t earlier = *end;

	*end = engine_submit(line->state, line->engine, line->channel, duration_ns);
	uint64_t position = *end;

	if (line->watched.count)
		settle(line);
	pthread_mutex_unlock(&line->mutex);
	wait_for(line, earlier);
	return position;
}

bool timeline_is_done(CUdevice device, uint64_t position)
{
	struct timeline *line = position ? line_of(device) : NULL;
	uint64_t left_ns;

	return !line || engine_reached(line->state, line->engine, line->channel, position, &left_ns);
}

void timeline_wait(CUdevice device, uint64_t position)
{
	struct timeline *line = position ? line_of(device) : NULL;

	if (line)
		wait_for(line, position);
}

void timeline_wait_all(CUdevice device)
{
	struct timeline *line = &lines[device];

	if (__atomic_load_n(&line->channel, __ATOMIC_ACQUIRE))
		wait_for(line, __atomic_load_n(&line->channel->queued_ns, __ATOMIC_ACQUIRE));
}

void timeline_watch(CUevent event)
{
	struct timeline *line = line_of(event->device);

	event->reached_ns = 0;
	if (!line)
		return;
	pthread_mutex_lock(&line->mutex);
	table_remove(&line->watched, (uint64_t)(uintptr_t)event);
	uint64_t left_ns;

	if (engine_reached(line->state, line->engine, line->channel, event->position, &left_ns))
		event->reached_ns = engine_now_ns(line->engine); /* the stream was idle */
	else if (line->watched.count < WATCHED_AT_MOST)
		table_add(&line->watched, (uint64_t)(uintptr_t)event, event);
	pthread_mutex_unlock(&line->mutex);
}

void timeline_forget(CUevent event)
{
	struct timeline *line = &lines[event->device];

	if (!__atomic_load_n(&line->channel, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&line->mutex);
	table_remove(&line->watched, (uint64_t)(uintptr_t)event);
	pthread_mutex_unlock(&line->mutex);
}

uint64_t timeline_reached_ns(CUevent event)
{
	struct timeline *line = line_of(event->device);

	if (!line)
		return 0;
	pthread_mutex_lock(&line->mutex);
	settle(line);
	if (event->reached_ns == 0)
		event->reached_ns = engine_time_of(line->engine, line->channel, event->position);
	pthread_mutex_unlock(&line->mutex);
	return event->reached_ns;
}

/* --- the clock, for who is to live by it: the library built for tests, programs of ours --- */

SIM_EXPORT bool hamid_sim_is_virtual(void)
{
	return engine_is_virtual();
}

SIM_EXPORT uint64_t hamid_sim_now_ns(void)
{
	struct timeline *line = line_of(0);

	return line ? engine_now_ns(line->engine) : 0;
}

SIM_EXPORT void hamid_sim_sleep(uint64_t ns)
{
	struct timeline *line = line_of(0);

	if (line)
		engine_sleep(line->state, line->engine, line->channel, ns);
}
