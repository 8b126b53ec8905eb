/*
 * A driver that does nothing, in a few ns: what is measured on it is the hooks' own. One device, one
 * context, addresses from a counter or freed before. The simulated driver (../stub) is the one that behaves.
 */
#include <stdint.h>
#include <string.h>

#include "cuda_subset.h"

#define EXPORT __attribute__((visibility("default")))

static __thread CUcontext current;
static uint64_t next_address = 0x700000000000ull;

#define BARE(result, symbol, params) \
	EXPORT result symbol params; \
	result symbol params

BARE(CUresult, cuInit, (unsigned int flags))
{
	(void)flags;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device))
{
	(void)device;
	static const unsigned char bytes[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33,
						0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};
	memcpy(uuid->bytes, bytes, sizeof bytes);
	return CUDA_SUCCESS;
}

BARE(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))
{
	(void)device;
	*context = (CUcontext)(uintptr_t)0x1000;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxSetCurrent, (CUcontext context))
{
	current = context;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxGetCurrent, (CUcontext *context))
{
	*context = current;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxPushCurrent_v2, (CUcontext context))
{
	current = context;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxPopCurrent_v2, (CUcontext *context))
{
	*context = current;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxGetDevice, (CUdevice *device))
{
	*device = 0;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* As a driver does, it gives out first what was freed last. */
static __thread CUdeviceptr freed;

BARE(CUresult, cuMemAlloc_v2, (CUdeviceptr *address, size_t size_bytes))
{
	const CUdeviceptr again = freed;
	freed = 0;
	*address = again ? again :
			   __atomic_fetch_add(&next_address, (size_bytes + 511) & ~511ull,
					      __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

BARE(CUresult, cuMemFree_v2, (CUdeviceptr address))
{
	freed = address;
	return CUDA_SUCCESS;
}

/* A handle is its block's address; opened, it is at that address; and all blocks are of one size. */
BARE(CUresult, cuIpcGetMemHandle, (CUipcMemHandle *handle, CUdeviceptr address))
{
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &address, sizeof address);
	return CUDA_SUCCESS;
}

BARE(CUresult, cuIpcOpenMemHandle_v2, (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags))
{
	(void)flags;
	memcpy(address, &handle, sizeof *address);
	return CUDA_SUCCESS;
}

BARE(CUresult, cuIpcCloseMemHandle, (CUdeviceptr address))
{
	(void)address;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *size_bytes, CUdeviceptr address))
{
	if (base)
		*base = address;
	if (size_bytes)
		*size_bytes = 60u << 20;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address))
{
	(void)address;
	if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		return CUDA_ERROR_INVALID_VALUE;
	memset(data, 0, sizeof(CUdevice));
	return CUDA_SUCCESS;
}

BARE(CUresult, cuLaunchKernel,
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
      CUstream stream, void **params, void **extra))
{
	(void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
	(void)block_z, (void)shared_bytes, (void)stream, (void)params, (void)extra;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuCtxSynchronize, (void))
{
	return CUDA_SUCCESS;
}

/* Kernels take no time: so no cap is ever reached. */

BARE(CUresult, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status))
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuEventCreate, (CUevent *event, unsigned int flags))
{
	(void)flags;
	*event = (CUevent)(uintptr_t)0x2000;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuEventDestroy_v2, (CUevent event))
{
	(void)event;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuEventRecord, (CUevent event, CUstream stream))
{
	(void)event, (void)stream;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuEventQuery, (CUevent event))
{
	(void)event;
	return CUDA_SUCCESS;
}

BARE(CUresult, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))
{
	(void)start, (void)end;
	*milliseconds = 0;
	return CUDA_SUCCESS;
}
