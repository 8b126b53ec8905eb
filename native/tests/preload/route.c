/*
 * Tries the ways to take device memory (route.h), and prints a JSON line of what came of it.
 *
 *   route fill ROUTE UNIT_MIB     take until refused, give everything back, take again
 *   route cycles ROUTE COUNT      take and give 2 MiB, COUNT times
 *   route odd                     what is legal, or wrong, with frees: a line per case
 *   route handles                 memory with handles at its edges: a line per case
 *   route no-context              the same before there is any context
 *   route contexts                what contexts cost: a line per case
 *   route array W H D FORMAT CHANNELS FLAGS LEVELS   an array (LEVELS 0), or one with so many levels
 *   route touch UNIT_MIB          take plainly until refused, write to all of it, read it all again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

#define TAKEN_MAX 8192
#define MIB (1ull << 20)

static struct taken taken[TAKEN_MAX];

static size_t fill(const struct route *route, size_t bytes, CUresult *ret_last)
{
	size_t count = 0;
	CUresult cr = CUDA_SUCCESS;
	while (count < TAKEN_MAX) {
		taken[count] = (struct taken){.bytes = bytes};
		cr = route->take(bytes, &taken[count]);
		if (cr != CUDA_SUCCESS)
			break;
		count++;
	}
	*ret_last = cr;
	return count;
}

static int act_fill(const char *name, size_t unit_mib)
{
	const struct route *route = route_named(name);
	CUresult last, again, failed = CUDA_SUCCESS;
	const size_t count = fill(route, unit_mib * MIB, &last);
	const uint64_t charged = charged_bytes(), fixed = fixed_bytes(), physical = physical_bytes();
	for (size_t i = 0; i < count; i++) {
		CUresult cr = route->give(&taken[i]);
		failed = cr == CUDA_SUCCESS ? failed : cr;
	}
	cuCtxSynchronize();
	const uint64_t left = charged_bytes();
	const size_t regained = fill(route, unit_mib * MIB, &again);
	printf("{\"route\": \"%s\", \"count\": %zu, \"granted\": %llu, \"charged\": %llu, "
	       "\"fixed\": %llu, \"physical\": %llu, \"result\": %d, \"free_result\": %d, \"left\": %llu, "
	       "\"regained\": %zu}\n",
	       name, count, (unsigned long long)(count * unit_mib * MIB),
	       (unsigned long long)charged, (unsigned long long)fixed, (unsigned long long)physical,
	       (int)last, (int)failed, (unsigned long long)left, regained);
	return 0;
}

static int act_cycles(const char *name, long count)
{
	const struct route *route = route_named(name);
	uint64_t highest = 0;
	for (long i = 0; i < count; i++) {
		struct taken one = {.bytes = 2 * MIB};
		CUresult cr = route->take(2 * MIB, &one);
		if (cr == CUDA_SUCCESS)
			cr = route->give(&one);
		if (cr != CUDA_SUCCESS) {
			printf("{\"cycle\": %ld, \"result\": %d}\n", i, (int)cr);
			return 1;
		}
		if (charged_bytes() > highest)
			highest = charged_bytes();
	}
	cuCtxSynchronize();
	printf("{\"route\": \"%s\", \"highest\": %llu, \"left\": %llu}\n", name,
	       (unsigned long long)highest, (unsigned long long)charged_bytes());
	return 0;
}

static void say(const char *what, CUresult cr)
{
	printf("{\"case\": \"%s\", \"result\": %d, \"charged\": %llu, \"physical\": %llu}\n", what,
	       (int)cr, (unsigned long long)charged_bytes(), (unsigned long long)physical_bytes());
}

static int act_odd(void)
{
	const struct route *plain = route_named("alloc"), *async = route_named("async");
	struct taken one = {.bytes = 32 * MIB}, two = {.bytes = 32 * MIB};
	say("null, in order of a stream", cuMemFreeAsync(0, NULL));
	say("null", cuMemFree_v2(0));
	say("foreign", cuMemFree_v2(0x1234000));
	say("foreign, in order of a stream", cuMemFreeAsync(0x1234000, NULL));
	plain->take(one.bytes, &one);
	say("plain taken", CUDA_SUCCESS);
	say("plain freed in order of a stream", async->give(&one));
	say("plain freed twice", cuMemFree_v2(one.address));
	async->take(two.bytes, &two);
	say("pooled freed plainly", cuMemFree_v2(two.address));
	say("pooled freed twice", cuMemFree_v2(two.address));
	CUmemoryPool pool;
	cuDeviceGetDefaultMemPool(&pool, 0);
	say("trimmed", cuMemPoolTrimTo(pool, 0));
	CUcontext context;
	cuCtxCreate_v2(&context, 0, 0);
	plain->take(one.bytes, &one);
	route_named("array")->take(two.bytes, &two);
	say("in a context", CUDA_SUCCESS);
	say("context destroyed", cuCtxDestroy_v2(context));
	plain->take(one.bytes, &one);
	say("in the primary context", CUDA_SUCCESS);
	say("primary context reset", cuDevicePrimaryCtxReset_v2(0));
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	say("null result", cuMemAlloc_v2(NULL, MIB));
	say("nothing asked for", cuMemAlloc_v2((CUdeviceptr *)&one.address, 0));
	return 0;
}

static CUresult create(int type, int id, CUmemGenericAllocationHandle *ret_handle)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = type, .id = id},
	};
	return cuMemCreate(ret_handle, 64 * MIB, &props, 0);
}

static int act_handles(void)
{
	CUmemGenericAllocationHandle host = 0, handle = 0, imported = 0, retained = 0;
	CUdeviceptr at = 0;
	int fd = -1;
	say("on the host", create(CU_MEM_LOCATION_TYPE_HOST, 0, &host));
	if (host)
		say("on the host, released", cuMemRelease(host));
	say("on host memory near a device", create(3, 0, &host));
	say("on a place that is none", create(77, 0, &host));
	say("on device -1", create(CU_MEM_LOCATION_TYPE_DEVICE, -1, &host));
	say("on device 99", create(CU_MEM_LOCATION_TYPE_DEVICE, 99, &host));
	say("without properties", cuMemCreate(&host, 64 * MIB, NULL, 0));
	say("on device 0", create(CU_MEM_LOCATION_TYPE_DEVICE, 0, &handle));
	cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0);
	say("mapped", cuMemMap(at, 64 * MIB, 0, handle, 0));
	say("exported", cuMemExportToShareableHandle(&fd, handle, 1, 0));
	say("imported", cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, 1));
	say("import released", cuMemRelease(imported));
	say("retained", cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)at));
	say("released", cuMemRelease(handle));
	say("unmapped", cuMemUnmap(at, 64 * MIB));
	say("released at last", cuMemRelease(retained));
	say("released once more", cuMemRelease(retained));
	return 0;
}

/* The heap of device-side malloc; a context has 8 MiB of it from the start. */
static CUresult set_heap(size_t mib)
{
	return cuCtxSetLimit(2, mib * MIB);
}

static int act_contexts(void)
{
	CUcontext primary, second, third = NULL;
	cuCtxGetCurrent(&primary);
	say("primary", CUDA_SUCCESS);
	say("retained again", cuDevicePrimaryCtxRetain(&primary, 0));
	say("released again", cuDevicePrimaryCtxRelease_v2(0));
	say("second", cuCtxCreate_v2(&second, 0, 0));
	say("heap", set_heap(72));
	say("heap lowered", set_heap(40));
	say("heap raised", set_heap(136));
	say("heap of all there is", set_heap(1 << 20));
	say("unknown limit", cuCtxSetLimit(77, MIB));
	say("third", cuCtxCreate_v2(&third, 0, 0));
	say("second destroyed", cuCtxDestroy_v2(second));
	say("destroyed twice", cuCtxDestroy_v2(second));
	cuCtxSetCurrent(primary);
	say("printf", cuCtxSetLimit(1, 9 * MIB));
	say("primary reset", cuDevicePrimaryCtxReset_v2(0));
	say("primary released", cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static int act_touch(size_t unit_mib)
{
	CUresult last, failed = CUDA_SUCCESS;
	uint64_t most = 0;
	long wrong = 0, managed = 0;
	const size_t count = fill(route_named("alloc"), unit_mib * MIB, &last);
	const uint64_t charged = charged_bytes(), fixed = fixed_bytes();
	for (size_t i = 0; i < count; i++) {
		unsigned int is_managed = 0;
		cuPointerGetAttribute(&is_managed, 8, taken[i].address);
		managed += is_managed != 0;
		CUresult cr = cuMemsetD8_v2(taken[i].address, (unsigned char)i, unit_mib * MIB);
		failed = cr == CUDA_SUCCESS ? failed : cr;
		most = physical_bytes() > most ? physical_bytes() : most;
	}
	for (size_t i = 0; i < count; i++) {
		unsigned char byte = (unsigned char)~i;
		CUresult cr = cuMemcpyDtoH_v2(&byte, taken[i].address + unit_mib * MIB - 1, 1);
		failed = cr == CUDA_SUCCESS ? failed : cr;
		wrong += byte != (unsigned char)i;
	}
	for (size_t i = 0; i < count; i++)
		cuMemFree_v2(taken[i].address);
	printf("{\"count\": %zu, \"managed\": %ld, \"charged\": %llu, \"fixed\": %llu, \"most\": %llu, "
	       "\"result\": %d, \"failed\": %d, \"wrong\": %ld, \"left\": %llu}\n",
	       count, managed, (unsigned long long)charged, (unsigned long long)fixed,
	       (unsigned long long)most, (int)last, (int)failed, wrong,
	       (unsigned long long)(charged_bytes() + fixed_bytes()));
	return 0;
}

/* What the driver says that it takes: of one like it that is to be mapped later, for of others it does not tell. */
static uint64_t required(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	CUDA_ARRAY3D_DESCRIPTOR later = *shape;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {.size = 0};
	CUarray array;
	CUmipmappedArray mipmap;
	later.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (levels && cuMipmappedArrayCreate(&mipmap, &later, levels) == CUDA_SUCCESS) {
		cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0);
		cuMipmappedArrayDestroy(mipmap);
	} else if (!levels && cuArray3DCreate_v2(&array, &later) == CUDA_SUCCESS) {
		cuArrayGetMemoryRequirements(&needs, array, 0);
		cuArrayDestroy(array);
	}
	return needs.size;
}

static int act_array(char **words)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = strtoul(words[0], NULL, 10),
		.Height = strtoul(words[1], NULL, 10),
		.Depth = strtoul(words[2], NULL, 10),
		.Format = (int)strtol(words[3], NULL, 0),
		.NumChannels = (unsigned int)strtoul(words[4], NULL, 10),
		.Flags = (unsigned int)strtoul(words[5], NULL, 0),
	};
	const unsigned int levels = (unsigned int)strtoul(words[6], NULL, 10);
	const uint64_t needs = required(&shape, levels);
	CUarray array;
	CUmipmappedArray mipmap;
	CUresult cr = levels ? cuMipmappedArrayCreate(&mipmap, &shape, levels) : cuArray3DCreate_v2(&array, &shape);
	const uint64_t charged = charged_bytes();
	if (cr == CUDA_SUCCESS && levels)
		cuMipmappedArrayDestroy(mipmap);
	else if (cr == CUDA_SUCCESS)
		cuArrayDestroy(array);
	printf("{\"result\": %d, \"charged\": %llu, \"required\": %llu, \"left\": %llu}\n", (int)cr,
	       (unsigned long long)charged, (unsigned long long)needs, (unsigned long long)charged_bytes());
	return 0;
}

int main(int argc, char **argv)
{
	const char *act = argc > 1 ? argv[1] : "";
	if (strcmp(act, "no-context") == 0)
		return cuInit(0) ? 2 : act_handles();
	route_start();
	if (strcmp(act, "fill") == 0 && argc == 4)
		return act_fill(argv[2], strtoul(argv[3], NULL, 10));
	if (strcmp(act, "cycles") == 0 && argc == 4)
		return act_cycles(argv[2], atol(argv[3]));
	if (strcmp(act, "odd") == 0)
		return act_odd();
	if (strcmp(act, "handles") == 0)
		return act_handles();
	if (strcmp(act, "contexts") == 0)
		return act_contexts();
	if (strcmp(act, "array") == 0 && argc == 9)
		return act_array(argv + 2);
	if (strcmp(act, "touch") == 0 && argc == 3)
		return act_touch(strtoul(argv[2], NULL, 10));
	return 2;
}
