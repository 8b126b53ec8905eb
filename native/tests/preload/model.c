/*
 * Legal calls by chance, on two devices and in several contexts. After each of them, device by device: is this process
 * charged what all that it holds comes to, and is that what the simulated driver gave it? A JSON line says where not.
 *
 *   model SEED STEPS [WORD…]
 *   odd      sizes are any; without, whole grains of 2 MiB, and charge and driver agree to the byte
 *   beside   others take of the same limits, so nobody can tell whether a no was right
 *
 * Of what is held by itself the model knows the charge. What pools and graphs have, the driver tells. In between, calls
 * are made to fail: then nothing may have changed. Managed memory is left out: the driver counts it where it is.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holding.h"

#define ITEMS_MAX 200
#define DEVICES 2
#define PLACES 4 /* of each device its primary context, then one that comes and goes */
#define FAILURE CUDA_ERROR_UNKNOWN
#define POOL_RELEASE_THRESHOLD 4
#define GRAPH_RESERVED 2

static struct {
	struct route_place at;
	CUcontext context; /* NULL: there is none now */
} places[PLACES];
static int here;

static struct item items[ITEMS_MAX];
static size_t item_count;
static bool has_others;
static long step, refused, failed;
static const char *what = "";
static CUmemoryPool defaults[DEVICES];
static char uuids[DEVICES][48];
static size_t limits[DEVICES];

static size_t some_bytes(bool is_whole)
{
	return is_odd && !is_whole ? 1 + roll(LARGEST) : GRAIN * (1 + roll(LARGEST / GRAIN));
}

static CUdevice device_of(int place)
{
	return place % DEVICES;
}

/* --- what is held --- */

static uint64_t expected_on(CUdevice device)
{
	cuuint64_t bytes = 0;
	cuDeviceGetGraphMemAttribute(device, GRAPH_RESERVED, &bytes);
	bytes += reserved_by(defaults[device]);
	for (int i = 0; i < PLACES; i++)
		bytes += device_of(i) == device ? reserved_by(places[i].at.pool) : 0;
	for (size_t i = 0; i < item_count; i++)
		if (items[i].device == device)
			bytes += items[i].charge + reserved_by(items[i].pool);
	return bytes;
}

static void complain(const char *of, CUdevice device, CUresult cr)
{
	printf("{\"step\": %ld, \"call\": \"%s\", \"wrong\": \"%s\", \"device\": %d, \"result\": %d, "
	       "\"charged\": %llu, \"expected\": %llu, \"physical\": %llu, \"limit\": %llu}\n",
	       step, what, of, device, (int)cr, (unsigned long long)charged_bytes_of(uuids[device]),
	       (unsigned long long)expected_on(device),
	       (unsigned long long)physical_bytes_of(uuids[device]), (unsigned long long)limits[device]);
	exit(1);
}

static void compare(CUresult cr)
{
	for (CUdevice device = 0; device < DEVICES; device++) {
		const uint64_t charged = charged_bytes_of(uuids[device]);
		const uint64_t physical = physical_bytes_of(uuids[device]);
		if (charged != expected_on(device))
			complain("charge", device, cr);
		if (is_odd ? charged > physical : charged != physical)
			complain("driver", device, cr);
		if (charged > limits[device])
			complain("limit", device, cr);
	}
}

/* --- steps --- */

/* Now and then the next call of one of these names is to fail. */
static bool order_failure(const char *const *symbols, size_t count)
{
	const char *symbol = symbols[roll(count)];
	if (!symbol || roll(6))
		return false;
	hamid_sim_fail_next(symbol, FAILURE);
	return true;
}

/* Did it? Then that has to be the answer. */
static bool has_failed(bool was_ordered, CUresult cr)
{
	const bool is_waiting = hamid_sim_fail_next(NULL, CUDA_SUCCESS);
	if (!was_ordered || is_waiting)
		return false;
	if (cr != FAILURE)
		complain("failure", route_place.device, cr);
	failed++;
	return true;
}

static CUresult go_to(int place)
{
	CUresult cr = CUDA_SUCCESS;
	places[here].at = route_place;
	here = place;
	route_place = places[here].at;
	if (!places[here].context)
		cr = cuCtxCreate_v2(&places[here].context, 0, route_place.device);
	if (cr == CUDA_SUCCESS)
		cr = cuCtxSetCurrent(places[here].context);
	if (cr == CUDA_SUCCESS && !route_place.stream)
		cr = cuStreamCreate(&route_place.stream, 0);
	places[here].at = route_place;
	return cr;
}

static bool was_right_to_refuse(const struct kind *kind, uint64_t bytes)
{
	const CUdevice device = route_place.device;
	return has_others || !kind->unit || expected_on(device) + whole(bytes, kind->unit) > limits[device];
}

static CUresult take(void)
{
	const struct kind *kind = &kinds[roll(kind_count)];
	const size_t bytes = some_bytes(kind->is_whole);
	struct item item = {
		.kind = kind, .taken = {.bytes = bytes}, .device = route_place.device, .place = here,
	};
	what = kind->name;
	const bool is_ordered = order_failure(kind->take_fails, 4);
	CUresult cr = kind->take ? kind->take(bytes, &item) : route_named(kind->name)->take(bytes, &item.taken);
	places[here].at = route_place; /* the route may have made its pool */
	if (has_failed(is_ordered, cr))
		return CUDA_SUCCESS;
	if (cr == CUDA_ERROR_OUT_OF_MEMORY) {
		refused++;
		if (!was_right_to_refuse(kind, bytes))
			complain("refusal", route_place.device, cr);
		return CUDA_SUCCESS;
	}
	if (cr != CUDA_SUCCESS)
		return cr;
	if (kind->unit)
		item.charge = whole(bytes, kind->unit);
	if (strcmp(kind->name, "own pool") == 0)
		item.pool = (CUmemoryPool)(uintptr_t)item.taken.handle;
	items[item_count++] = item;
	return cr;
}

static CUresult give(void)
{
	struct item *item = &items[roll(item_count)];
	const struct kind *kind = item->kind;
	what = kind->name;
	const bool is_ordered = order_failure(&kind->give_fails, 1);
	CUresult cr = kind->give ? kind->give(item) : route_named(kind->name)->give(&item->taken);
	if (has_failed(is_ordered, cr))
		return CUDA_SUCCESS;
	if (cr == CUDA_SUCCESS && !item->parts)
		*item = items[--item_count];
	return cr;
}

static void forget_all_of(int place)
{
	for (size_t i = item_count; i-- > 0;)
		if (items[i].kind->is_of_context && items[i].place == place)
			items[i] = items[--item_count];
	places[place].at.stream = NULL;
	if (place == here)
		route_place.stream = NULL;
}

static CUresult destroy_context(void)
{
	static const char *const fails[] = {"cuCtxDestroy_v2"};
	what = "destroy a context";
	if (here < DEVICES) /* a primary one: that is reset */
		return CUDA_SUCCESS;
	const bool is_ordered = order_failure(fails, 1);
	CUresult cr = cuCtxDestroy_v2(places[here].context);
	if (has_failed(is_ordered, cr) || cr != CUDA_SUCCESS)
		return cr == FAILURE ? CUDA_SUCCESS : cr;
	forget_all_of(here);
	places[here].context = NULL;
	return go_to(device_of(here));
}

static CUresult reset_device(void)
{
	static const char *const fails[] = {"cuDevicePrimaryCtxReset_v2"};
	const CUdevice device = (CUdevice)roll(DEVICES);
	what = "reset a device";
	const bool is_ordered = order_failure(fails, 1);
	CUresult cr = cuDevicePrimaryCtxReset_v2(device);
	if (has_failed(is_ordered, cr) || cr != CUDA_SUCCESS)
		return cr == FAILURE ? CUDA_SUCCESS : cr;
	forget_all_of(device);
	return go_to(here);
}

static CUmemoryPool some_pool(void)
{
	const CUmemoryPool made = places[roll(PLACES)].at.pool;
	return made && roll(2) ? made : defaults[roll(DEVICES)];
}

static CUresult change_pool(void)
{
	static const char *const fails[] = {"cuMemPoolTrimTo"};
	const CUmemoryPool pool = some_pool();
	cuuint64_t bytes = roll(3) ? roll(4) * LARGEST : UINT64_MAX;
	if (roll(2)) {
		what = "set a pool's threshold";
		return cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &bytes);
	}
	what = "trim a pool";
	const bool is_ordered = order_failure(fails, 1);
	CUresult cr = cuMemPoolTrimTo(pool, bytes);
	return has_failed(is_ordered, cr) ? CUDA_SUCCESS : cr;
}

static CUresult choose_pool(void)
{
	const CUmemoryPool made = route_place.pool;
	what = "choose a device's pool";
	return cuDeviceSetMemPool(route_place.device, made && roll(2) ? made : defaults[route_place.device]);
}

static CUresult act(void)
{
	const uint64_t kind = roll(64);
	what = "wait";
	if (kind < 3)
		return cuCtxSynchronize();
	if (kind < 8)
		return change_pool();
	if (kind == 8)
		return choose_pool();
	if (kind == 9)
		return destroy_context();
	if (kind == 10)
		return roll(4) ? CUDA_SUCCESS : reset_device();
	what = "go to another context";
	if (kind < 16)
		return go_to((int)roll(PLACES));
	if (kind < 42 && item_count < ITEMS_MAX)
		return take();
	return item_count ? give() : CUDA_SUCCESS;
}

static void start(void)
{
	cuInit(0);
	for (CUdevice device = 0; device < DEVICES; device++) {
		CUuuid uuid;
		char *text = uuids[device];
		if (cuDeviceGetUuid_v2(&uuid, device) || cuDevicePrimaryCtxRetain(&places[device].context, device) ||
		    cuDeviceGetDefaultMemPool(&defaults[device], device) || cuDeviceTotalMem_v2(&limits[device], device))
			exit(2);
		text += sprintf(text, "GPU-");
		for (int i = 0; i < 16; i++)
			text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					(unsigned char)uuid.bytes[i]);
	}
	for (int i = 0; i < PLACES; i++)
		places[i].at.device = device_of(i);
	route_place = places[0].at;
	if (go_to(0) != CUDA_SUCCESS)
		exit(2);
}

static void give_all(void)
{
	what = "end";
	while (item_count)
		if (give() != CUDA_SUCCESS)
			complain("end", items[0].device, CUDA_SUCCESS);
	for (int i = 0; i < PLACES; i++) {
		cuuint64_t none = 0;
		if (!places[i].context)
			continue;
		go_to(i);
		cuMemPoolSetAttribute(defaults[route_place.device], POOL_RELEASE_THRESHOLD, &none);
		cuCtxSynchronize();
		cuDeviceGraphMemTrim(route_place.device);
		cuMemPoolTrimTo(defaults[route_place.device], 0);
	}
	for (int i = 0; i < PLACES; i++)
		if (places[i].at.pool)
			cuMemPoolDestroy(places[i].at.pool);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	seed_dice(strtoull(argv[1], NULL, 10));
	for (int i = 3; i < argc; i++) {
		is_odd |= strcmp(argv[i], "odd") == 0;
		has_others |= strcmp(argv[i], "beside") == 0;
	}
	start();
	for (step = 0; step < atol(argv[2]); step++) {
		const CUresult cr = act();
		if (cr != CUDA_SUCCESS)
			complain("result", route_place.device, cr);
		compare(cr);
	}
	give_all();
	printf("{\"steps\": %ld, \"refused\": %ld, \"failed\": %ld, \"left\": %llu}\n", step, refused, failed,
	       (unsigned long long)(charged_bytes_of(uuids[0]) + charged_bytes_of(uuids[1])));
	return 0;
}
