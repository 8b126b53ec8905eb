/* Part of cuda_api.h. */
#pragma once

#include "cuda_types.h"

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape);
SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array);
SIM_EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape);
SIM_EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *flat);
SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *flat);
SIM_EXPORT CUresult cuArrayDestroy(CUarray array);
SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *flat, CUarray array);
SIM_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs,
	CUarray array, CUdevice device);
SIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory);
SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
SIM_EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *part);
SIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory,
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from);
SIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address);
SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address);
SIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
	unsigned int flags);
SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
	unsigned int flags);
SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes);
SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
	CUdeviceptr wanted, unsigned long long flags);
SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device);
SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice,
	CUmemLocation location);
SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes);
SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
SIM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
	CUstream stream);
SIM_EXPORT CUresult cuMemAllocHost(void **memory, unsigned int bytes);
SIM_EXPORT CUresult cuMemAllocHost_v2(void **memory, size_t bytes);
SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags);
SIM_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch,
	unsigned int width, unsigned int height, unsigned int element);
SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width,
	size_t height, unsigned int element);
SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
	const CUmemAllocationProp *props, unsigned long long flags);
SIM_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
	int type, unsigned long long flags);
SIM_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address);
SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
SIM_EXPORT CUresult cuMemFreeHost(void *memory);
SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address);
SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
	CUdeviceptr address);
SIM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *bytes,
	CUdeviceptr_v1 address);
SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *props,
	int option);
SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *props,
	CUmemGenericAllocationHandle handle);
SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, const CUmemLocation *location,
	int type);
SIM_EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes);
SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location, int type);
SIM_EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags);
SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory,
	unsigned int flags);
SIM_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *memory);
SIM_EXPORT CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags);
SIM_EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags);
SIM_EXPORT CUresult cuMemHostUnregister(void *memory);
SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *in,
	int type);
SIM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags);
SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool);
SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address);
SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, int type,
	unsigned long long flags);
SIM_EXPORT CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location);
SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
	unsigned long long flags);
SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
	CUmemPoolPtrExportData *data);
SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes);
SIM_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice to,
	CUstream stream);
SIM_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation to,
	unsigned int flags, CUstream stream);
SIM_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
	CUmemLocation *to, size_t *first_of, size_t to_count, unsigned long long flags,
	CUstream stream);
SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, int attribute,
	CUdeviceptr address, size_t bytes);
SIM_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count,
	CUstream stream);
SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
	void *address);
SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
	const CUmemAccessDesc *access, size_t count);
SIM_EXPORT CUresult cuMemSetMemPool(const CUmemLocation *location, int type, CUmemoryPool pool);
SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
SIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
SIM_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
SIM_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
SIM_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream);
SIM_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy);
SIM_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream);
SIM_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
SIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
SIM_EXPORT CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from,
	size_t from_offset, size_t bytes);
SIM_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes);
SIM_EXPORT CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t from_offset, size_t bytes,
	CUstream stream);
SIM_EXPORT CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t from_offset, size_t bytes);
SIM_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
	size_t count, void *attributes, size_t *first_of, size_t attribute_count, size_t *failed,
	CUstream stream);
SIM_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
	size_t count, void *attributes, size_t *first_of, size_t attribute_count, CUstream stream);
SIM_EXPORT CUresult cuMemcpyDtoA_v2(CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
	CUstream stream);
SIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
SIM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t to_offset, const void *from,
	size_t bytes, CUstream stream);
SIM_EXPORT CUresult cuMemcpyHtoA_v2(CUarray to, size_t to_offset, const void *from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
	CUstream stream);
SIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
SIM_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t bytes);
SIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t bytes, CUstream stream);
SIM_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
	CUstream stream);
SIM_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
SIM_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
	size_t width, size_t height, CUstream stream);
SIM_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value,
	size_t width, size_t height);
SIM_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value,
	size_t width, size_t height, CUstream stream);
SIM_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value,
	size_t width, size_t height);
SIM_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
	size_t width, size_t height, CUstream stream);
SIM_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value,
	size_t width, size_t height);
SIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
	CUstream stream);
SIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
SIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
	CUstream stream);
SIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array,
	const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array);
SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array,
	unsigned int i);
SIM_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs,
	CUmipmappedArray array, CUdevice device);
SIM_EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device);
SIM_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
	CUdeviceptr address, size_t bytes, unsigned long long flags);
SIM_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
	CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
	unsigned long long flags);
SIM_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
	const CUmulticastObjectProp *props);
SIM_EXPORT CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *props,
	int option);
SIM_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
	size_t offset, size_t bytes);
SIM_EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
	CUdeviceptr address);
SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address);
SIM_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length,
	unsigned int flags);
