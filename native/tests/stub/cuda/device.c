/* cuInit and what is asked of devices. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_device devices[SIM_DEVICES_MAX];
static int device_count;
static int cuda_version = 13000;
static bool is_ready;
static bool is_forked;

static void after_fork_in_child(void)
{
	/* As with the real driver: what was initialised before a fork is of no use after it. */
	is_forked = is_ready;
}

CUresult sim_ready(void)
{
	return is_ready && !is_forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int sim_device_count(void)
{
	return device_count;
}

int sim_cuda_version(void)
{
	return cuda_version;
}

const struct sim_device *sim_device(CUdevice device)
{
	return device >= 0 && device < device_count ? &devices[device] : NULL;
}

#define KNOWS_LOCALITY_DOMAINS 13050

CUresult sim_location(const CUmemLocation *location, CUdevice *ret_device)
{
	const bool is_domain = location->type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN &&
			       sim_cuda_version() >= KNOWS_LOCALITY_DOMAINS;

	*ret_device = -1;
	if (location->type >= CU_MEM_LOCATION_TYPE_HOST &&
	    location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_SUCCESS;
	if (!is_domain && location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_domain && location->localized.localityDomainId != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = is_domain ? location->localized.deviceId : location->id;
	return sim_device(*ret_device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* The sixteen bytes of "GPU-xxxxxxxx-…"; false if they are not there. */
static bool uuid_bytes(const char *text, uint8_t ret_bytes[16])
{
	const char *at = strchr(text, '-');
	int digits = 0;
	for (; at && *at && digits < 32; at++) {
		if (!isxdigit((unsigned char)*at))
			continue;
		char digit[2] = {*at, '\0'};
		uint8_t value = (uint8_t)strtoul(digit, NULL, 16);
		ret_bytes[digits / 2] = (uint8_t)(digits % 2 ? ret_bytes[digits / 2] | value : value << 4);
		digits++;
	}
	return digits == 32;
}

static bool make_device(const struct card *card, struct sim_device *ret_device)
{
	bool is_mig = card->mig_enabled;
	if (is_mig && card->instance_count == 0)
		return false; /* a card in MIG mode without instances is no CUDA device */
	const char *uuid = is_mig ? card->instances[0].uuid : card->uuid;
	uint64_t memory_mib = is_mig ? card->instances[0].memory_mib : card->memory_mib;
	uint64_t taken_mib = is_mig ? 0 : card->reserved_mib + card->used_mib;
	struct sim_device device = {
		.total_bytes = memory_mib << 20,
		.free_bytes_at_most = (memory_mib > taken_mib ? memory_mib - taken_mib : 0) << 20,
		.pci_domain = card->pci_domain,
		.pci_bus = card->pci_bus,
		.pci_device = card->pci_device,
		.cc_major = card->cc_major,
		.cc_minor = card->cc_minor,
		.multiprocessors = card->multiprocessors ? card->multiprocessors : 108,
		.context_bytes = card->context_mib << 20,
		.is_mig = is_mig,
	};
	snprintf(device.uuid, sizeof device.uuid, "%s", uuid);
	snprintf(device.name, sizeof device.name, "%s", card->name);
	if (!uuid_bytes(uuid, device.uuid_bytes) || !uuid_bytes(card->uuid, device.card_uuid_bytes)) {
		fprintf(stderr, "libcuda (simulated): %s holds no 32 hex digits: the card is left out\n",
			uuid);
		return false;
	}
	*ret_device = device;
	return true;
}

/*
 * CUDA_VISIBLE_DEVICES: ordinals or UUIDs, abbreviated or not; what follows the first unknown is
 * hidden.
 */
static void choose(const struct sim_device *all, int count, const char *visible)
{
	char list[4096];
	char *rest = NULL;
	if (!visible) {
		memcpy(devices, all, sizeof *all * (size_t)count);
		device_count = count;
		return;
	}
	snprintf(list, sizeof list, "%s", visible);
	device_count = 0;
	for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		int found = -1;
		char *end;
		long ordinal = strtol(name, &end, 10);
		if (*end == '\0' && ordinal >= 0 && ordinal < count)
			found = (int)ordinal;
		for (int i = 0; found < 0 && i < count; i++)
			if (strlen(name) > 4 && strncmp(all[i].uuid, name, strlen(name)) == 0)
				found = i;
		if (found < 0 || device_count == SIM_DEVICES_MAX)
			return;
		devices[device_count++] = all[found];
	}
}

static CUresult read_machine(void)
{
	static struct profile profile;
	static struct sim_device all[SIM_DEVICES_MAX];
	struct profile_file file = {0};
	int count = 0;
	if (profile_refresh(profile_path(), &file, &profile) < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (profile.driver_fail == DRIVER_MISMATCH)
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	if (profile.driver_fail != DRIVER_OK)
		return profile.driver_fail == DRIVER_UNKNOWN ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_NO_DEVICE;
	cuda_version = profile.cuda_version ? profile.cuda_version : cuda_version;
	profile_filter(&profile, getenv(PROFILE_VISIBLE_ENV));
	for (uint32_t i = 0; i < profile.card_count; i++)
		if (!(profile.cards[i].fails & FAIL_LOST) && make_device(&profile.cards[i], &all[count]))
			count++;
	choose(all, count, getenv("CUDA_VISIBLE_DEVICES"));
	return device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

SIM_EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult cr = sim_injected(__func__);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&mutex);
	if (!is_ready) {
		cr = read_machine();
		is_ready = cr == CUDA_SUCCESS;
		if (is_ready)
			pthread_atfork(NULL, NULL, after_fork_in_child);
	}
	pthread_mutex_unlock(&mutex);
	return cr;
}

SIM_EXPORT CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = cuda_version;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count;
	return CUDA_SUCCESS;
}

/* The checks that every question about a device starts with. */
static CUresult look_up(CUdevice ordinal, const void *result, const struct sim_device **ret_device)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = sim_device(ordinal);
	return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, name, &device);
	if (cr == CUDA_SUCCESS && length > 0)
		snprintf(name, (size_t)length, "%s", device->name);
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, uuid, &device);
	if (cr == CUDA_SUCCESS)
		memcpy(uuid->bytes, device->card_uuid_bytes, sizeof uuid->bytes);
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, uuid, &device);
	if (cr == CUDA_SUCCESS)
		memcpy(uuid->bytes, device->uuid_bytes, sizeof uuid->bytes);
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *bus_id, int length, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, bus_id, &device);
	if (cr == CUDA_SUCCESS && length > 0)
		snprintf(bus_id, (size_t)length, "%04x:%02x:%02x.0", device->pci_domain,
			 device->pci_bus, device->pci_device);
	return cr;
}

SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, bytes, &device);
	if (cr == CUDA_SUCCESS)
		*bytes = device->total_bytes;
	return cr;
}

SIM_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice ordinal)
{
	const struct sim_device *device;
	CUresult cr = look_up(ordinal, bytes, &device);
	if (cr == CUDA_SUCCESS)
		*bytes = device->total_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)device->total_bytes;
	return cr;
}

/* The device whose UUID stands after `prefix` in the name of a memory file. */
bool sim_named_device(int fd, const char *prefix, int *ret_ordinal)
{
	char path[64], name[256];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(path, name, sizeof name - 1);
	name[length > 0 ? length : 0] = '\0';
	const char *at = strstr(name, prefix);
	for (int i = 0; at && i < device_count; i++) {
		const char *uuid = devices[i].uuid;
		if (strncmp(at + strlen(prefix), uuid, strlen(uuid)) == 0) {
			*ret_ordinal = i;
			return true;
		}
	}
	return false;
}
