/* Part of cuda_api.h. */
#pragma once

#include "cuda_types.h"

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *context, const void *affinities, int count,
	unsigned int flags, CUdevice device);
SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *context, const void *params, unsigned int flags,
	CUdevice device);
SIM_EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device);
SIM_EXPORT CUresult cuCtxDestroy(CUcontext context);
SIM_EXPORT CUresult cuCtxDetach(CUcontext context);
SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context);
SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer);
SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version);
SIM_EXPORT CUresult cuCtxGetCacheConfig(int *config);
SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *context);
SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device);
SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext of);
SIM_EXPORT CUresult cuCtxGetFlags(unsigned int *flags);
SIM_EXPORT CUresult cuCtxGetId(CUcontext of, unsigned long long *id);
SIM_EXPORT CUresult cuCtxGetLimit(size_t *value, int limit);
SIM_EXPORT CUresult cuCtxGetSharedMemConfig(int *config);
SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context);
SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context);
SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void);
SIM_EXPORT CUresult cuCtxSetCacheConfig(int config);
SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context);
SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags);
SIM_EXPORT CUresult cuCtxSetLimit(int limit, size_t value);
SIM_EXPORT CUresult cuCtxSetSharedMemConfig(int config);
SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer);
SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *found, const char *bus_id);
SIM_EXPORT CUresult cuDeviceGetCount(int *count);
SIM_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice ordinal,
	CUdevice peer);
SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *bus_id, int length, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format,
	unsigned int channels, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal);
SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
SIM_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice ordinal);
SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal);
SIM_EXPORT CUresult cuDriverGetVersion(int *version);
SIM_EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope);
SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **name);
SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text);
SIM_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *uuid);
SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version,
	cuuint64_t flags);
SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *status);
SIM_EXPORT CUresult cuInit(unsigned int flags);
SIM_EXPORT CUresult cuProfilerStart(void);
SIM_EXPORT CUresult cuProfilerStop(void);
