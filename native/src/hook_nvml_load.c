/*
 * How busy a device is, as a tenant is told: of lists, its own processes' part. The figure of the whole
 * card is the container's part of it where that is measured, which is under a cap (throttle.h), over the time between two
 * questions; to the first question, no more than the cap, and nothing if nothing was to be run lately, or ever: under a
 * cap what nobody counts does not run. Without a cap it is the card's.
 *
 * Of an instance (MIG) the driver gives no such figures, and its answer stands, as outside of our
 * containers.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "hook_nvml_own.h"
#include "hooks.h"
#include "real.h"

#define WHOLE_PERCENT 100u
#define WINDOW_NS 166666667ull   /* the driver's own figure is of a sixth of a second */
#define LATELY_NS 1000000000ull
#define STALE_NS 10000000000ull

/* --- lists of processes --- */

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long since_us)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetProcessUtilization)
		return NVML_ERROR_UNINITIALIZED;
	struct own_processes own;
	nvmlReturn_t nr = real.nvmlDeviceGetProcessUtilization(device, samples, count, since_us);
	if ((nr != NVML_SUCCESS && nr != NVML_ERROR_INSUFFICIENT_SIZE) || !own_processes(device, &own))
		return nr;
	if (own.count == 0)
		*count = 0;
	if (nr == NVML_SUCCESS && samples) {
		unsigned int kept = 0;
		for (unsigned int i = 0; i < *count; i++)
			if (own_has(&own, samples[i].pid))
				samples[kept++] = samples[i];
		*count = kept;
	}
	return *count ? nr : NVML_ERROR_NOT_FOUND;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
	nvmlProcessesUtilizationInfo_v1_t *info)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetProcessesUtilizationInfo)
		return NVML_ERROR_UNINITIALIZED;
	struct own_processes own;
	const bool is_known = info && info->version == (sizeof *info | 1u << 24);
	nvmlReturn_t nr = real.nvmlDeviceGetProcessesUtilizationInfo(device, info);
	if (!is_known) /* another structure: the driver's to judge */
		return nr;
	if ((nr != NVML_SUCCESS && nr != NVML_ERROR_INSUFFICIENT_SIZE) || !own_processes(device, &own))
		return nr;
	if (own.count == 0)
		info->processSamplesCount = 0;
	if (nr == NVML_SUCCESS && info->procUtilArray) {
		unsigned int kept = 0;
		for (unsigned int i = 0; i < info->processSamplesCount; i++)
			if (own_has(&own, info->procUtilArray[i].pid))
				info->procUtilArray[kept++] = info->procUtilArray[i];
		info->processSamplesCount = kept;
	}
	return info->processSamplesCount ? nr : NVML_ERROR_NOT_FOUND;
}

/* --- the card --- */

static _Atomic bool is_asked_in_use; /* guards `asked`; nobody waits for it */
static struct {
	uint64_t at_ns, charged_ns;
	unsigned int percent;
} asked[HAMID_DEVICES_MAX]; /* by place in the control page: what was told last */

static uint64_t monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static unsigned int used_percent(uint64_t charged_ns, uint64_t passed_ns)
{
	const uint64_t percent = (charged_ns * WHOLE_PERCENT + passed_ns / 2) / passed_ns;
	return percent < WHOLE_PERCENT ? (unsigned int)percent : WHOLE_PERCENT;
}

/* The container's part of the device's time. */
static unsigned int own_percent(const struct device_limit *limit, const struct hamid_budget *budget)
{
	const uint64_t now_ns = monotonic_ns();
	const bool was_busy = budget->wanted_ns && now_ns - budget->wanted_ns < LATELY_NS;
	unsigned int told = was_busy ? limit->core_percent : 0;
	if (limit->index >= HAMID_DEVICES_MAX || atomic_exchange(&is_asked_in_use, true))
		return told;
	const uint64_t passed_ns = now_ns - asked[limit->index].at_ns;
	if (passed_ns < WINDOW_NS)
		told = asked[limit->index].percent;
	else if (passed_ns < STALE_NS)
		told = budget->charged_ns > asked[limit->index].charged_ns ?
			       used_percent(budget->charged_ns - asked[limit->index].charged_ns, passed_ns) :
			       0;
	if (passed_ns >= WINDOW_NS) {
		asked[limit->index].at_ns = now_ns;
		asked[limit->index].charged_ns = budget->charged_ns;
		asked[limit->index].percent = told;
	}
	atomic_store(&is_asked_in_use, false);
	return told;
}

/* Has the container a cap on the device? Then what is told it at most. */
static bool is_capped(nvmlDevice_t device, unsigned int *ret_percent)
{
	char uuid[96];
	struct device_limit limit;
	struct hamid_budget budget;
	if (!real.nvmlDeviceGetUUID ||
	    real.nvmlDeviceGetUUID(device, uuid, sizeof uuid) != NVML_SUCCESS ||
	    pages_limit(uuid, &limit) < 0 || limit.core_percent == 0 ||
	    limit.core_percent >= WHOLE_PERCENT)
		return false;
	*ret_percent = pages_budget_told(limit.uuid, &budget) < 0 ? 0 : own_percent(&limit, &budget);
	return true;
}

HOOK_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
	nvmlUtilization_t *utilization)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetUtilizationRates)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int own;
	nvmlReturn_t nr = real.nvmlDeviceGetUtilizationRates(device, utilization);
	if (nr != NVML_SUCCESS || !is_capped(device, &own))
		return nr;
	if (utilization->gpu > own)
		utilization->gpu = own;
	if (utilization->memory > own)
		utilization->memory = own;
	return nr;
}

/* The same of the last moments: of all of them what is told of now. */
HOOK_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
	unsigned long long since_us, nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
	if (!real_load(REAL_NVML) || !real.nvmlDeviceGetSamples)
		return NVML_ERROR_UNINITIALIZED;
	unsigned int own;
	nvmlReturn_t nr = real.nvmlDeviceGetSamples(device, type, since_us, value_type, count, samples);
	if (nr != NVML_SUCCESS || !samples ||
	    (type != NVML_GPU_UTILIZATION_SAMPLES && type != NVML_MEMORY_UTILIZATION_SAMPLES) ||
	    !is_capped(device, &own))
		return nr;
	for (unsigned int i = 0; i < *count; i++)
		if (samples[i].sampleValue.uiVal > own)
			samples[i].sampleValue.uiVal = own;
	return nr;
}
