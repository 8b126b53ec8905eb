/* See holding.h. */
#include "holding.h"

#define POOL_RESERVED 5
#define PARTS 3

bool is_odd;

static uint64_t dice = 88172645463325252ull;

void seed_dice(uint64_t seed)
{
	dice ^= seed * 0x9e3779b97f4a7c15ull;
}

uint64_t roll(uint64_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % sides;
}

uint64_t whole(uint64_t bytes, uint64_t unit)
{
	return unit ? (bytes + unit - 1) / unit * unit : 0;
}

uint64_t reserved_by(CUmemoryPool pool)
{
	cuuint64_t bytes = 0;
	if (pool)
		cuMemPoolGetAttribute(pool, POOL_RESERVED, &bytes);
	return bytes;
}

static CUresult take_rows(size_t bytes, struct item *item)
{
	const size_t width = is_odd ? 1 + roll(3000) : 65536, height = (bytes + width - 1) / width;
	size_t pitch;
	CUresult cr = cuMemAllocPitch_v2((CUdeviceptr *)&item->taken.address, &pitch, width, height, 4);
	item->charge = cr == CUDA_SUCCESS ? whole(pitch * height, 512) : 0;
	return cr;
}

static CUresult give_plain(struct item *item)
{
	return cuMemFree_v2(item->taken.address);
}

/* A pool that is destroyed while a block of it lives: all that it has stays, until that is freed. */
static CUresult take_orphan(size_t bytes, struct item *item)
{
	const struct route *own = route_named("own pool");
	CUresult cr = own->take(bytes, &item->taken);
	if (cr != CUDA_SUCCESS)
		return cr;
	const CUmemoryPool pool = (CUmemoryPool)(uintptr_t)item->taken.handle;
	item->charge = reserved_by(pool);
	if (roll(3) == 0)
		hamid_sim_fail_next("cuMemPoolDestroy", CUDA_ERROR_UNKNOWN);
	while (cuMemPoolDestroy(pool) == CUDA_ERROR_UNKNOWN)
		; /* it is what it was, and destroyed at the second attempt */
	return cr;
}

static CUresult give_orphan(struct item *item)
{
	CUresult cr = cuMemFreeAsync(item->taken.address, route_place.stream);
	if (cr == CUDA_SUCCESS)
		item->charge = 0;
	return cr;
}

static CUresult take_captured(size_t bytes, struct item *item)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	cuStreamBeginCapture_v2(route_place.stream, 0);
	CUresult cr = cuMemAllocAsync((CUdeviceptr *)&item->taken.address, bytes, route_place.stream);
	CUresult ended = cuStreamEndCapture(route_place.stream, &graph);
	cr = cr == CUDA_SUCCESS ? ended : cr;
	if (cr == CUDA_SUCCESS)
		cr = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (cr == CUDA_SUCCESS)
		cr = cuGraphLaunch(exec, route_place.stream);
	if (cr != CUDA_SUCCESS && exec)
		cuGraphExecDestroy(exec);
	if (graph)
		cuGraphDestroy(graph);
	item->taken.handle = (uintptr_t)exec;
	return cr;
}

static uint64_t part_bytes(const struct item *item)
{
	return item->taken.bytes / PARTS;
}

/* Its first and last part are the same memory. */
static void charge_parts(struct item *item)
{
	item->charge = ((item->parts & 5) != 0) * part_bytes(item) + ((item->parts & 2) != 0) * part_bytes(item);
}

static CUresult create(uint64_t bytes, CUmemGenericAllocationHandle *ret_handle)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = route_place.device},
	};
	return cuMemCreate(ret_handle, bytes, &props, 0);
}

static CUresult give_parts(struct item *item, unsigned int first, unsigned int last)
{
	const uint64_t bytes = part_bytes(item), at = item->taken.address + first * bytes;
	CUresult cr = cuMemUnmap(at, (last - first + 1) * bytes);
	if (cr != CUDA_SUCCESS)
		return cr;
	for (unsigned int i = first; i <= last; i++)
		item->parts &= ~(1u << i);
	charge_parts(item);
	return item->parts ? CUDA_SUCCESS : cuMemAddressFree(item->taken.address, item->taken.bytes);
}

static CUresult take_range(size_t bytes, struct item *item)
{
	const uint64_t part = whole(bytes / PARTS, GRAIN);
	CUmemGenericAllocationHandle one = 0, other = 0;
	item->taken.bytes = PARTS * part;
	CUresult cr = cuMemAddressReserve((CUdeviceptr *)&item->taken.address, item->taken.bytes, 0, 0, 0);
	if (cr == CUDA_SUCCESS)
		cr = create(part, &one);
	if (cr == CUDA_SUCCESS)
		cr = create(part, &other);
	for (unsigned int i = 0; i < PARTS && cr == CUDA_SUCCESS; i++) {
		cr = cuMemMap(item->taken.address + i * part, part, 0, i == 1 ? other : one, 0);
		item->parts |= cr == CUDA_SUCCESS ? 1u << i : 0;
	}
	if (one)
		cuMemRelease(one);
	if (other)
		cuMemRelease(other);
	charge_parts(item);
	if (cr == CUDA_SUCCESS)
		return cr;
	if (!item->parts)
		cuMemAddressFree(item->taken.address, item->taken.bytes);
	for (unsigned int i = 0; i < PARTS; i++)
		if (item->parts & (1u << i))
			give_parts(item, i, i);
	return cr;
}

/* Some of it, after it was held by one more handle for a moment. */
static CUresult give_range(struct item *item)
{
	unsigned int first = (unsigned int)roll(PARTS), last;
	CUmemGenericAllocationHandle again;
	while (!(item->parts & (1u << first)))
		first = (first + 1) % PARTS;
	for (last = first; last + 1 < PARTS && (item->parts & 2u << last) && roll(2); last++)
		;
	void *at = (void *)(uintptr_t)(item->taken.address + first * part_bytes(item));
	if (cuMemRetainAllocationHandle(&again, at) == CUDA_SUCCESS)
		cuMemRelease(again);
	return give_parts(item, first, last);
}

static CUresult give_graph(struct item *item)
{
	return route_named("graph")->give(&item->taken);
}

#define OF_CONTEXT .unit = 64 * KIB, .is_of_context = true
#define OF_HANDLE .unit = GRAIN, .is_whole = true
const struct kind kinds[] = {
	{"alloc", .take_fails = {"cuMemAlloc_v2"}, .give_fails = "cuMemFree_v2", .unit = 512, .is_of_context = true},
	{"rows", take_rows, give_plain, {"cuMemAllocPitch_v2"}, "cuMemFree_v2", .is_of_context = true},
	{"async", .take_fails = {"cuMemAllocAsync"}, .give_fails = "cuMemFreeAsync"},
	{"async freed at once", .take_fails = {"cuMemAllocAsync"}, .give_fails = "cuMemFree_v2"},
	{"pool", .take_fails = {"cuMemAllocFromPoolAsync"}, .give_fails = "cuMemFreeAsync"},
	{"own pool", .take_fails = {"cuMemPoolCreate", "cuMemAllocFromPoolAsync"}},
	{"orphan", take_orphan, give_orphan, {"cuMemAllocFromPoolAsync"}, .give_fails = "cuMemFreeAsync"},
	{"handle", .take_fails = {"cuMemCreate"}, .give_fails = "cuMemRelease", OF_HANDLE},
	{"mapping", .take_fails = {"cuMemCreate", "cuMemMap"}, .give_fails = "cuMemUnmap", OF_HANDLE},
	{"range", take_range, give_range, {"cuMemCreate", "cuMemMap"}, "cuMemUnmap", .is_whole = true},
	{"array", .take_fails = {"cuArrayCreate_v2"}, .give_fails = "cuArrayDestroy", .unit = 8 * 64 * KIB,
	 .is_of_context = true},
	{"array3d", .take_fails = {"cuArray3DCreate_v2"}, .give_fails = "cuArrayDestroy", OF_CONTEXT},
	{"mipmap", .take_fails = {"cuMipmappedArrayCreate"}, .give_fails = "cuMipmappedArrayDestroy", OF_CONTEXT},
	{"graph", .take_fails = {"cuGraphAddMemAllocNode", "cuGraphInstantiateWithFlags", "cuGraphLaunch"}},
	{"graph node",
	 .take_fails = {"cuGraphAddNode_v2", "cuGraphInstantiateWithParams", "cuGraphUpload", "cuGraphLaunch"}},
	{"graph uploaded", .take_fails = {"cuGraphAddNode_v2", "cuGraphInstantiateWithParams", "cuGraphLaunch"}},
	{"captured", take_captured, give_graph, .take_fails = {"cuGraphInstantiateWithFlags", "cuGraphLaunch"}},
};
const size_t kind_count = sizeof kinds / sizeof *kinds;
