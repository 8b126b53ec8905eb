/*
 * Green contexts: each holds its device's primary one, and is a part of it. Multiprocessors are not divided: the only
 * resources are all of a device's.
 */
#include <string.h>

#include "context.h"

#define RESOURCE_SM 1
#define RESOURCE_BYTES 144
#define SM_COUNT_AT 96
#define DEFAULT_STREAM 1

struct CUgreenCtx_st {
	struct object object;
	struct CUctx_st context; /* as programs make it current */
};

SIM_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, void *resource, int type)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!resource || type != RESOURCE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	memset(resource, 0, RESOURCE_BYTES);
	memcpy(resource, &type, sizeof type);
	memcpy((char *)resource + SM_COUNT_AT, &sim_device(device)->multiprocessors, sizeof(uint32_t));
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevResourceGenerateDesc(void **description, void *resources, unsigned int count)
{
	static char all;

	SIM_ENTER();
	if (!description || !resources || count != 1)
		return CUDA_ERROR_INVALID_VALUE;
	*description = &all;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGreenCtxCreate(struct CUgreenCtx_st **green, void *description, CUdevice device,
				     unsigned int flags)
{
	CUcontext primary;

	SIM_ENTER();
	if (!green || !description || flags != DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult cr = cuDevicePrimaryCtxRetain(&primary, device);

	if (cr != CUDA_SUCCESS)
		return cr;
	struct CUgreenCtx_st *made = object_new(OBJECT_GREEN, sizeof *made, NULL);

	if (!made) {
		cuDevicePrimaryCtxRelease_v2(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made->context.object.kind = OBJECT_CONTEXT;
	made->context.device = device;
	made->context.part_of = primary;
	made->context.is_alive = object_register(&made->context.object);
	*green = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, struct CUgreenCtx_st *green)
{
	SIM_ENTER();
	if (!context || !object_is(OBJECT_GREEN, green))
		return CUDA_ERROR_INVALID_VALUE;
	*context = &green->context;
	return CUDA_SUCCESS;
}

/* Never freed, as no context is. */
SIM_EXPORT CUresult cuGreenCtxDestroy(struct CUgreenCtx_st *green)
{
	SIM_ENTER();
	if (!object_is(OBJECT_GREEN, green))
		return CUDA_ERROR_INVALID_VALUE;
	green->context.is_alive = false;
	object_forget(OBJECT_CONTEXT, &green->context);
	object_forget(OBJECT_GREEN, green);
	return cuDevicePrimaryCtxRelease_v2(green->context.device);
}
