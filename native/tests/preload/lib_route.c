/* See route.h. */
#include "route.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hamid_pages.h"
#include "hamid_paths.h"
#include "state.h"

#define ROW_BYTES 65536u
#define NARROW_ROW_BYTES 100u /* which the driver makes a whole unit */
#define UNIT_BYTES 512u

struct route_place route_place;

static CUresult take_plain(size_t bytes, struct taken *taken)
{
	return cuMemAlloc_v2((CUdeviceptr *)&taken->address, bytes);
}

static CUresult take_managed(size_t bytes, struct taken *taken)
{
	return cuMemAllocManaged((CUdeviceptr *)&taken->address, bytes, 1);
}

static CUresult take_pitched(size_t bytes, struct taken *taken)
{
	size_t pitch;
	return cuMemAllocPitch_v2((CUdeviceptr *)&taken->address, &pitch, ROW_BYTES,
				  (bytes + ROW_BYTES - 1) / ROW_BYTES, 4);
}

static CUresult take_narrow(size_t bytes, struct taken *taken)
{
	size_t pitch;
	return cuMemAllocPitch_v2((CUdeviceptr *)&taken->address, &pitch, NARROW_ROW_BYTES,
				  bytes / UNIT_BYTES, 4);
}

static CUresult give_plain(const struct taken *taken)
{
	return cuMemFree_v2(taken->address);
}

static CUresult take_plain_v1(size_t bytes, struct taken *taken)
{
	CUdeviceptr_v1 address = 0;
	CUresult cr = cuMemAlloc(&address, (unsigned int)bytes);
	taken->address = address;
	return cr;
}

static CUresult take_narrow_v1(size_t bytes, struct taken *taken)
{
	CUdeviceptr_v1 address = 0;
	unsigned int pitch;
	CUresult cr = cuMemAllocPitch(&address, &pitch, NARROW_ROW_BYTES,
				      (unsigned int)(bytes / UNIT_BYTES), 4);
	taken->address = address;
	return cr;
}

static CUresult give_plain_v1(const struct taken *taken)
{
	return cuMemFree((CUdeviceptr_v1)taken->address);
}

static CUresult take_async(size_t bytes, struct taken *taken)
{
	return cuMemAllocAsync((CUdeviceptr *)&taken->address, bytes, route_place.stream);
}

static CUresult take_from_pool(size_t bytes, struct taken *taken)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device},
	};
	if (!route_place.pool && cuMemPoolCreate(&route_place.pool, &props) != CUDA_SUCCESS)
		return CUDA_ERROR_UNKNOWN;
	return cuMemAllocFromPoolAsync((CUdeviceptr *)&taken->address, bytes, route_place.pool,
				       route_place.stream);
}

static CUresult give_async(const struct taken *taken)
{
	return cuMemFreeAsync(taken->address, route_place.stream);
}

static CUresult take_handle(size_t bytes, struct taken *taken)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device},
	};
	return cuMemCreate((CUmemGenericAllocationHandle *)&taken->handle, bytes, &props, 0);
}

static CUresult give_handle(const struct taken *taken)
{
	return cuMemRelease(taken->handle);
}

static CUresult map(CUmemGenericAllocationHandle handle, size_t bytes, struct taken *taken)
{
	CUresult cr = cuMemAddressReserve((CUdeviceptr *)&taken->address, bytes, 0, 0, 0);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = cuMemMap(taken->address, bytes, 0, handle, 0);
	if (cr != CUDA_SUCCESS)
		cuMemAddressFree(taken->address, bytes);
	return cr;
}

/* As frameworks do: the mapping alone keeps the memory. */
static CUresult take_mapped(size_t bytes, struct taken *taken)
{
	CUresult cr = take_handle(bytes, taken);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = map(taken->handle, bytes, taken);
	cuMemRelease(taken->handle);
	return cr;
}

static CUresult give_mapped(const struct taken *taken)
{
	CUresult cr = cuMemUnmap(taken->address, taken->bytes);
	return cr == CUDA_SUCCESS ? cuMemAddressFree(taken->address, taken->bytes) : cr;
}

static CUresult bind_memory(size_t bytes, struct taken *taken)
{
	const CUmulticastObjectProp props = {.numDevices = 1, .size = bytes};
	CUresult cr = cuMulticastCreate((CUmemGenericAllocationHandle *)&taken->other, &props);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = cuMulticastAddDevice(taken->other, route_place.device);
	if (cr == CUDA_SUCCESS)
		cr = cuMulticastBindMem(taken->other, 0, taken->handle, 0, bytes, 0);
	if (cr == CUDA_SUCCESS)
		cr = map(taken->other, bytes, taken);
	if (cr != CUDA_SUCCESS)
		cuMemRelease(taken->other);
	return cr;
}

/* Memory of a handle under the address of a multicast object. */
static CUresult take_multicast(size_t bytes, struct taken *taken)
{
	CUresult cr = take_handle(bytes, taken);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = bind_memory(bytes, taken);
	if (cr != CUDA_SUCCESS)
		cuMemRelease(taken->handle);
	return cr;
}

static CUresult give_multicast(const struct taken *taken)
{
	CUresult cr = give_mapped(taken);
	if (cr == CUDA_SUCCESS)
		cr = cuMulticastUnbind(taken->other, route_place.device, 0, taken->bytes);
	if (cr == CUDA_SUCCESS)
		cr = cuMemRelease(taken->other);
	return cr == CUDA_SUCCESS ? cuMemRelease(taken->handle) : cr;
}

static CUresult take_array(size_t bytes, struct taken *taken)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = ROW_BYTES / 4,
		.Height = (bytes + ROW_BYTES - 1) / ROW_BYTES,
		.Format = 0x20,
		.NumChannels = 1,
	};
	return cuArrayCreate_v2((CUarray *)&taken->handle, &shape);
}

static CUresult take_array_3d(size_t bytes, struct taken *taken)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 64,
		.Height = 64,
		.Depth = (bytes + ROW_BYTES - 1) / ROW_BYTES,
		.Format = 0x20,
		.NumChannels = 4,
	};
	return cuArray3DCreate_v2((CUarray *)&taken->handle, &shape);
}

static CUresult give_array(const struct taken *taken)
{
	return cuArrayDestroy((CUarray)(uintptr_t)taken->handle);
}

static CUresult take_mipmap(size_t bytes, struct taken *taken)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024,
		.Height = (bytes + 4095) / 4096,
		.Format = 0x20,
		.NumChannels = 1,
	};
	return cuMipmappedArrayCreate((CUmipmappedArray *)&taken->handle, &shape, 1);
}

static CUresult give_mipmap(const struct taken *taken)
{
	return cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)taken->handle);
}

/* The same by the forms for per-thread default streams, and a pool for each block. */
extern __typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
extern __typeof__(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
extern __typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
extern __typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;

static CUresult take_async_of_thread(size_t bytes, struct taken *taken)
{
	return cuMemAllocAsync_ptsz((CUdeviceptr *)&taken->address, bytes, route_place.stream);
}

static CUresult give_async_of_thread(const struct taken *taken)
{
	return cuMemFreeAsync_ptsz(taken->address, route_place.stream);
}

static CUresult take_from_own_pool(size_t bytes, struct taken *taken)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device},
	};
	CUmemoryPool own;
	CUresult cr = cuMemPoolCreate(&own, &props);
	if (cr != CUDA_SUCCESS)
		return cr;
	taken->handle = (uintptr_t)own;
	cr = cuMemAllocFromPoolAsync_ptsz((CUdeviceptr *)&taken->address, bytes, own, route_place.stream);
	if (cr != CUDA_SUCCESS)
		cuMemPoolDestroy(own);
	return cr;
}

static CUresult give_own_pool(const struct taken *taken)
{
	CUresult cr = cuMemFreeAsync_ptsz(taken->address, route_place.stream);
	cuStreamSynchronize_ptsz(route_place.stream);
	CUresult destroyed = cuMemPoolDestroy((CUmemoryPool)(uintptr_t)taken->handle);
	return cr == CUDA_SUCCESS ? destroyed : cr;
}

static CUresult take_external(size_t bytes, struct taken *taken)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = {
		.type = 1, /* a descriptor of no kind that is told */
		.handle.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC),
		.size = bytes,
	};
	CUresult cr = cuImportExternalMemory((CUexternalMemory *)&taken->handle, &from);
	if (cr != CUDA_SUCCESS)
		close(from.handle.fd);
	return cr;
}

static CUresult give_external(const struct taken *taken)
{
	return cuDestroyExternalMemory((CUexternalMemory)(uintptr_t)taken->handle);
}

/* A graph of one allocation, launched once: the driver keeps the memory for the graph. */
static CUresult take_graph(size_t bytes, struct taken *taken)
{
	CUgraph graph;
	CUgraphNode node;
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device}},
		.bytesize = bytes,
	};
	CUgraphExec exec = NULL;
	CUresult cr = cuGraphCreate(&graph, 0);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphLaunch(exec, route_place.stream);
	taken->handle = (uintptr_t)exec;
	taken->address = params.dptr;
	if (cr != CUDA_SUCCESS && exec)
		cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
	return cr;
}

/* The same by the calls of today; uploaded by one of its own, or where it is made executable. */
static CUresult take_by_node(size_t bytes, bool uploads, struct taken *taken)
{
	CUgraph graph;
	CUgraphNode node;
	CUgraphNodeParams params = {
		.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device}},
		.alloc.bytesize = bytes,
	};
	CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = uploads ? 2 : 0, .hUploadStream = route_place.stream};
	CUgraphExec exec = NULL;
	CUresult cr = cuGraphCreate(&graph, 0);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphInstantiateWithParams(&exec, graph, &how);
	if (cr == CUDA_SUCCESS && !uploads)
		cr = cuGraphUpload(exec, route_place.stream);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphLaunch(exec, route_place.stream);
	taken->handle = (uintptr_t)exec;
	taken->address = params.alloc.dptr;
	if (cr != CUDA_SUCCESS && exec)
		cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
	return cr;
}

static CUresult take_graph_node(size_t bytes, struct taken *taken)
{
	return take_by_node(bytes, false, taken);
}

static CUresult take_uploaded(size_t bytes, struct taken *taken)
{
	return take_by_node(bytes, true, taken);
}

static CUresult give_graph(const struct taken *taken)
{
	CUresult cr = cuMemFreeAsync(taken->address, route_place.stream);
	cuStreamSynchronize(route_place.stream);
	cuGraphExecDestroy((CUgraphExec)(uintptr_t)taken->handle);
	cuDeviceGraphMemTrim(route_place.device);
	return cr;
}

const struct route routes[] = {
	{"alloc", take_plain, give_plain},
	{"managed", take_managed, give_plain},
	{"pitch", take_pitched, give_plain},
	{"async", take_async, give_async},
	{"async freed at once", take_async, give_plain},
	{"pool", take_from_pool, give_async},
	{"handle", take_handle, give_handle},
	{"mapping", take_mapped, give_mapped},
	{"array", take_array, give_array},
	{"array3d", take_array_3d, give_array},
	{"mipmap", take_mipmap, give_mipmap},
	{"graph", take_graph, give_graph},
	{"own pool", take_from_own_pool, give_own_pool},
	{"graph node", take_graph_node, give_graph},
	{"graph uploaded", take_uploaded, give_graph},
	{"narrow pitch", take_narrow, give_plain},
	{"async of thread", take_async_of_thread, give_async_of_thread},
	{"multicast", take_multicast, give_multicast},
	{"external", take_external, give_external},
	{"alloc v1", take_plain_v1, give_plain_v1},
	{"narrow pitch v1", take_narrow_v1, give_plain_v1},
};
#define ALL (sizeof routes / sizeof *routes)
const size_t route_count = ALL - 3;

const struct route *route_named(const char *name)
{
	for (size_t i = 0; i < ALL; i++)
		if (strcmp(routes[i].name, name) == 0)
			return &routes[i];
	for (size_t i = 0; i < context_route_count; i++)
		if (strcmp(context_routes[i].name, name) == 0)
			return &context_routes[i];
	fprintf(stderr, "no route %s\n", name);
	exit(2);
}

void route_start(void)
{
	CUcontext context;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuStreamCreate(&route_place.stream, 0)) {
		fprintf(stderr, "no device\n");
		exit(2);
	}
}

/* Of one device, or of all (NULL). */
static uint64_t counted_bytes(const char *uuid, bool is_fixed)
{
	static const struct hamid_usage *page;
	if (!page) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s", getenv("HAMID_TEST_USAGE_DIR"),
			 HAMID_USAGE_FILE);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		void *memory = mmap(NULL, HAMID_USAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		if (fd < 0 || memory == MAP_FAILED)
			return 0;
		close(fd);
		page = memory;
	}
	const struct hamid_usage_slot *slots = (const struct hamid_usage_slot *)(page + 1);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < page->slots_high_water; i++)
		for (uint32_t j = 0; slots[i].pid == (uint32_t)getpid() && j < page->device_count; j++)
			if ((strchr(page->device_uuids[j], '/') != NULL) == is_fixed &&
			    (!uuid || strcmp(page->device_uuids[j], uuid) == 0))
				sum += slots[i].cells[j].used_bytes;
	return sum;
}

uint64_t charged_bytes(void)
{
	return counted_bytes(NULL, false);
}

uint64_t fixed_bytes(void)
{
	return counted_bytes(NULL, true);
}

uint64_t charged_bytes_of(const char *uuid)
{
	return counted_bytes(uuid, false);
}

uint64_t physical_bytes_of(const char *uuid)
{
	static struct state_page *page;
	if (!page) {
		int fd = open(getenv(STATE_ENV), O_RDONLY | O_CLOEXEC);
		void *memory = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
		if (fd < 0 || memory == MAP_FAILED)
			return 0;
		page = memory; /* never closed: that would drop the driver's own lock */
	}
	uint64_t sum = 0;
	for (int i = 0; i < STATE_SLOTS; i++)
		if (page->slots[i].pid == (uint32_t)getpid() &&
		    (!uuid || strcmp(page->slots[i].device, uuid) == 0))
			sum += page->slots[i].bytes;
	return sum;
}

uint64_t physical_bytes(void)
{
	return physical_bytes_of(NULL);
}
