/*
 * Event sets. An event is a line of the profile with a sequence number; a set delivers, for each
 * card registered with it, the events numbered higher than any it has seen, lowest first, each once.
 * What was in the file before the registration has happened before it: it is not delivered.
 */
#define _GNU_SOURCE
#include "session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_REGISTRATIONS PROFILE_MAX_CARDS
#define SUPPORTED_TYPES 0x1full
#define POLL_NS 5000000

struct registration {
	nvmlDevice_t device;
	unsigned long long types;
	uint64_t seen_sequence;
};

struct event_set {
	pthread_mutex_t mutex;
	struct registration registrations[MAX_REGISTRATIONS];
	size_t count;
};

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	struct profile profile;
	nvmlReturn_t result = set ? session_profile(&profile) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	struct event_set *fresh = calloc(1, sizeof *fresh);

	if (!fresh)
		return NVML_ERROR_MEMORY;
	pthread_mutex_init(&fresh->mutex, NULL);
	*set = fresh;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	free(set);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
							   unsigned long long *types)
{
	struct view view;
	nvmlReturn_t result = types ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	*types = view.card.fails & FAIL_NO_EVENTS ? 0 : SUPPORTED_TYPES;
	return NVML_SUCCESS;
}

static uint64_t newest_sequence(const struct card *card)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < card->event_count; i++)
		if (card->events[i].sequence > newest)
			newest = card->events[i].sequence;
	return newest;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
						   nvmlEventSet_t set)
{
	struct view view;
	nvmlReturn_t result = set ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (view.is_instance || (types & ~SUPPORTED_TYPES) || (view.card.fails & FAIL_NO_EVENTS))
		return NVML_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&set->mutex);
	size_t i = 0;

	while (i < set->count && set->registrations[i].device != device)
		i++;
	if (i == MAX_REGISTRATIONS) {
		result = NVML_ERROR_INSUFFICIENT_RESOURCES;
	} else if (i == set->count) {
		set->registrations[set->count++] =
			(struct registration){.device = device,
					      .types = types,
					      .seen_sequence = newest_sequence(&view.card)};
	} else {
		set->registrations[i].types |= types;
	}
	pthread_mutex_unlock(&set->mutex);
	return result;
}

static const struct event *next_event(const struct card *card, const struct registration *of)
{
	const struct event *next = NULL;

	for (uint32_t i = 0; i < card->event_count; i++) {
		const struct event *event = &card->events[i];

		if (event->sequence > of->seen_sequence && (event->type & of->types) &&
		    (!next || event->sequence < next->sequence))
			next = event;
	}
	return next;
}

/* One look at all cards: success with an event, timeout without, or the error of a lost card. */
static nvmlReturn_t look(struct event_set *set, nvmlEventData_t *data)
{
	nvmlReturn_t result = NVML_ERROR_TIMEOUT;

	pthread_mutex_lock(&set->mutex);
	for (size_t i = 0; i < set->count && result == NVML_ERROR_TIMEOUT; i++) {
		struct registration *registration = &set->registrations[i];
		struct view view;
		nvmlReturn_t r = session_view(registration->device, &view);
		const struct event *event;

		if (r == NVML_ERROR_GPU_IS_LOST || r == NVML_ERROR_UNINITIALIZED) {
			result = r;
		} else if (r == NVML_SUCCESS && (event = next_event(&view.card, registration))) {
			registration->seen_sequence = event->sequence;
			*data = (nvmlEventData_t){.device = registration->device,
						  .eventType = event->type,
						  .eventData = event->data,
						  .gpuInstanceId = event->gpu_instance,
						  .computeInstanceId = event->compute_instance};
			result = NVML_SUCCESS;
		}
	}
	pthread_mutex_unlock(&set->mutex);
	return result;
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
					      unsigned int timeout_ms)
{
	long long until = now_ms() + timeout_ms;

	if (!set || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (;;) {
		nvmlReturn_t result = look(set, data);

		if (result != NVML_ERROR_TIMEOUT || now_ms() >= until)
			return result;
		nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
	}
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
					   unsigned int timeout_ms)
{
	return nvmlEventSetWait_v2(set, data, timeout_ms);
}
