/* How busy a card is: what the profile says, or what the simulated CUDA processes make of it. */
#define _GNU_SOURCE
#include "session.h"

#include <string.h>
#include <time.h>

typedef struct {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	unsigned long long timeStamp;
	unsigned int pid;
	unsigned int smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

#define NVML_PROCESSES_UTILIZATION_V1 0x01000018u
typedef struct {
	unsigned int version;
	unsigned int processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

/* NULL when nothing has run on the card yet. */
static struct engine *engine_of(const struct view *view, struct state **ret_state)
{
	struct state *state = session_state();

	*ret_state = state;
	return state && state->is_writable ? engine_find(state, view->card.uuid, false) : NULL;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
							nvmlUtilization_t *utilisation)
{
	struct view view;
	struct state *state;
	nvmlReturn_t result = utilisation ? session_view(device, &view)
					  : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	/* The real driver gives none for a card cut into instances, nor for an instance. */
	if (view.card.mig_enabled || (view.card.fails & FAIL_NO_UTILISATION))
		return NVML_ERROR_NOT_SUPPORTED;
	struct engine *engine = engine_of(&view, &state);
	uint32_t made = engine ? (engine_utilisation(state, engine, NULL) + 5) / 10 : 0;

	utilisation->gpu = made > view.card.gpu_util ? made : view.card.gpu_util;
	utilisation->memory = view.card.mem_util;
	return NVML_SUCCESS;
}

#define SAMPLES 8u /* kept */

typedef struct {
	unsigned long long timeStamp;
	union {
		unsigned int uiVal;
		unsigned long long ullVal;
	} sampleValue;
} nvmlSample_t;

static unsigned long long now_us(void);

/* What the card was busy in the last moments, all of them alike; without room, how many there can be. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long since_us,
					       int *value_type, unsigned int *count, nvmlSample_t *samples)
{
	nvmlUtilization_t now;
	nvmlReturn_t result = count && value_type ? nvmlDeviceGetUtilizationRates(device, &now)
						  : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (type != 1 && type != 2)
		return NVML_ERROR_NOT_SUPPORTED;
	*value_type = 1; /* unsigned int */
	if (!samples) {
		*count = SAMPLES;
		return NVML_SUCCESS;
	}
	*count = *count < SAMPLES ? *count : SAMPLES;
	for (unsigned int i = 0; i < *count; i++)
		samples[i] = (nvmlSample_t){
			.timeStamp = now_us() - (*count - i),
			.sampleValue.uiVal = type == 1 ? now.gpu : now.memory,
		};
	return now_us() > since_us ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static unsigned long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000;
}

/* Who was busy in the last window; *count says how much room there is, then how many there are. Without
 * room it is how many there can be, as the driver documents it: so the list may grow until it is asked for. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
							  nvmlProcessUtilizationSample_t *samples,
							  unsigned int *count,
							  unsigned long long since_us)
{
	struct view view;
	struct state *state;
	nvmlReturn_t result = count ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (view.card.mig_enabled || (view.card.fails & FAIL_NO_UTILISATION))
		return NVML_ERROR_NOT_SUPPORTED;
	struct engine *engine = engine_of(&view, &state);
	unsigned long long now = now_us();
	unsigned int found = 0, room = *count;

	if (engine && !samples) {
		*count = ENGINE_CHANNELS;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}

	for (size_t i = 0; engine && i < engine->channel_count && now > since_us; i++) {
		struct engine_channel *channel = &engine->channels[i];
		uint32_t pid = 0;

		if (!channel->owner || !state_owner_lives(state, channel->owner, channel, &pid) || pid == 0)
			continue; /* of another pid namespace: not ours to see */
		uint32_t busy = (engine_utilisation(state, engine, channel) + 5) / 10;

		if (busy == 0)
			continue;
		if (found < room)
			samples[found] = (nvmlProcessUtilizationSample_t){
				.pid = pid, .timeStamp = now, .smUtil = busy};
		found++;
	}
	*count = found;
	if (found == 0)
		return NVML_ERROR_NOT_FOUND;
	return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* The same, with all that is asked in one structure. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
								nvmlProcessesUtilizationInfo_v1_t *info)
{
	nvmlProcessUtilizationSample_t samples[ENGINE_CHANNELS];

	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != NVML_PROCESSES_UTILIZATION_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	unsigned int room = info->procUtilArray ? info->processSamplesCount : 0;
	unsigned int count = room < ENGINE_CHANNELS ? room : ENGINE_CHANNELS;
	nvmlReturn_t result = nvmlDeviceGetProcessUtilization(device, info->procUtilArray ? samples : NULL,
							      &count, info->lastSeenTimeStamp);

	info->processSamplesCount = count;
	for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = samples[i].timeStamp,
			.pid = samples[i].pid,
			.smUtil = samples[i].smUtil,
		};
	return result;
}
