/*
 * What the simulated driver and its test programs need of the driver API beyond what the hooks
 * know.
 */
#pragma once

#include "cuda_subset.h"

#define CUDA_ERROR_DEINITIALIZED ((CUresult)4)
#define CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ((CUresult)803)

#define SIM_EXPORT __attribute__((visibility("default")))

/* The prototypes, with the types of the public header; enum-typed parameters are ints there too. */
SIM_EXPORT CUresult cuInit(unsigned int flags);
SIM_EXPORT CUresult cuDriverGetVersion(int *version);
SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
SIM_EXPORT CUresult cuDeviceGetCount(int *count);
SIM_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device);
SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *bus_id, int length, CUdevice device);
SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
SIM_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device);
SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context);
SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version);
SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *context);
SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context);
SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context);
SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context);
SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device);
SIM_EXPORT CUresult cuCtxSynchronize(void);
SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes);
SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
SIM_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address);
SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address);
SIM_EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes);
SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
SIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
SIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **name);
SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text);
SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version,
				     cuuint64_t flags);
SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
					cuuint64_t flags, CUdriverProcAddressQueryResult *status);
