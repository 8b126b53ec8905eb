/* See route.h: contexts, and what is taken by way of them or of code. */
#include <stdlib.h>
#include <string.h>

#include "route.h"

#define LIMIT_HEAP 2
#define HEAP_BYTES_FIRST (8u << 20) /* which every context has */
#define RESOURCE_SM 1
#define RESOURCE_BYTES 144
#define DEFAULT_STREAM 1

/* Green contexts are in none of the simulated driver's headers. */
struct CUgreenCtx_st;
extern CUresult cuDeviceGetDevResource(CUdevice device, void *resource, int type);
extern CUresult cuDevResourceGenerateDesc(void **description, void *resources, unsigned int count);
extern CUresult cuGreenCtxCreate(struct CUgreenCtx_st **green, void *description, CUdevice device, unsigned int flags);
extern CUresult cuCtxFromGreenCtx(CUcontext *context, struct CUgreenCtx_st *green);
extern CUresult cuGreenCtxDestroy(struct CUgreenCtx_st *green);

/* One more, which is not left current. What it takes is its own business, not `bytes`. */
static CUresult take_context(size_t bytes, struct taken *taken)
{
	(void)bytes;
	CUcontext popped;
	CUresult cr = cuCtxCreate_v2((CUcontext *)&taken->handle, 0, 0);
	return cr == CUDA_SUCCESS ? cuCtxPopCurrent_v2(&popped) : cr;
}

static CUresult give_context(const struct taken *taken)
{
	return cuCtxDestroy_v2((CUcontext)(uintptr_t)taken->handle);
}

/* The heap of device-side malloc, of a context of its own. */
static CUresult take_heap(size_t bytes, struct taken *taken)
{
	CUcontext popped;
	CUresult cr = cuCtxCreate_v2((CUcontext *)&taken->handle, 0, 0);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = cuCtxSetLimit(LIMIT_HEAP, HEAP_BYTES_FIRST + bytes);
	cuCtxPopCurrent_v2(&popped);
	if (cr != CUDA_SUCCESS)
		give_context(taken);
	return cr;
}

static CUresult take_in_green(size_t bytes, struct taken *taken)
{
	struct CUgreenCtx_st *green = NULL;
	unsigned char resources[RESOURCE_BYTES];
	void *description;
	CUcontext context, popped;
	CUresult cr = cuDeviceGetDevResource(0, resources, RESOURCE_SM);
	if (cr == CUDA_SUCCESS)
		cr = cuDevResourceGenerateDesc(&description, resources, 1);
	if (cr == CUDA_SUCCESS)
		cr = cuGreenCtxCreate(&green, description, 0, DEFAULT_STREAM);
	if (cr != CUDA_SUCCESS)
		return cr;
	taken->handle = (uintptr_t)green;
	cr = cuCtxFromGreenCtx(&context, green);
	if (cr == CUDA_SUCCESS)
		cr = cuCtxPushCurrent_v2(context);
	if (cr == CUDA_SUCCESS) {
		cr = cuMemAlloc_v2((CUdeviceptr *)&taken->address, bytes);
		cuCtxPopCurrent_v2(&popped);
	}
	if (cr != CUDA_SUCCESS)
		cuGreenCtxDestroy(green);
	return cr;
}

static CUresult give_in_green(const struct taken *taken)
{
	CUresult cr = cuMemFree_v2(taken->address);
	CUresult destroyed = cuGreenCtxDestroy((struct CUgreenCtx_st *)(uintptr_t)taken->handle);
	return cr == CUDA_SUCCESS ? destroyed : cr;
}

static CUresult map_part(const struct taken *taken, int operation)
{
	CUarrayMapInfo part = {
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource.array = (CUarray)(uintptr_t)taken->other,
		.memOperationType = operation,
		.memHandle.memHandle = taken->handle,
		.deviceBitMask = 1,
	};
	return cuMemMapArrayAsync(&part, 1, NULL);
}

/* Memory of a handle that nothing but a sparse array holds. */
static CUresult take_in_sparse(size_t bytes, struct taken *taken)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 16384,
		.Height = bytes / 65536,
		.Format = 0x20,
		.NumChannels = 1,
		.Flags = CUDA_ARRAY3D_SPARSE,
	};
	CUresult cr = cuArray3DCreate_v2((CUarray *)&taken->other, &shape);
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = cuMemCreate((CUmemGenericAllocationHandle *)&taken->handle, bytes, &props, 0);
	if (cr == CUDA_SUCCESS) {
		cr = map_part(taken, CU_MEM_OPERATION_TYPE_MAP);
		cuMemRelease(taken->handle);
	}
	if (cr != CUDA_SUCCESS)
		cuArrayDestroy((CUarray)(uintptr_t)taken->other);
	return cr;
}

static CUresult give_in_sparse(const struct taken *taken)
{
	CUresult cr = map_part(taken, CU_MEM_OPERATION_TYPE_UNMAP);
	CUresult destroyed = cuArrayDestroy((CUarray)(uintptr_t)taken->other);
	return cr == CUDA_SUCCESS ? destroyed : cr;
}

/* A module whose code is so large. */
static CUresult take_code(size_t bytes, struct taken *taken)
{
	static char *image;
	static size_t image_bytes;
	if (image_bytes != bytes) {
		free(image);
		image = malloc(bytes);
		if (!image)
			return CUDA_ERROR_UNKNOWN;
		memset(image, '/', bytes - 1);
		image[bytes - 1] = '\0';
		image_bytes = bytes;
	}
	return cuModuleLoadData((CUmodule *)&taken->handle, image);
}

static CUresult give_code(const struct taken *taken)
{
	return cuModuleUnload((CUmodule)(uintptr_t)taken->handle);
}

const struct route context_routes[] = {
	{"context", take_context, give_context},
	{"heap", take_heap, give_context},
	{"green context", take_in_green, give_in_green},
	{"sparse array", take_in_sparse, give_in_sparse},
	{"code", take_code, give_code},
};
const size_t context_route_count = sizeof context_routes / sizeof *context_routes;
