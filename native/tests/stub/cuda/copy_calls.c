/* The calls that copy and fill. */
#include "copy.h"

static CUDA_MEMCPY3D line(int to_type, uint64_t to, int from_type, uint64_t from, size_t bytes)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = from_type,
			       .srcHost = (const void *)(uintptr_t)from,
			       .srcDevice = from,
			       .dstMemoryType = to_type,
			       .dstHost = (void *)(uintptr_t)to,
			       .dstDevice = to,
			       .WidthInBytes = bytes,
			       .Height = 1,
			       .Depth = 1};
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

/* One call: its parameters, where to and from, its stream and whether it waits. */
#define COPY(symbol, params, to_type, to, from_type, from, stream, is_sync) \
	SIM_EXPORT CUresult symbol params \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		CUDA_MEMCPY3D made = line(to_type, (uint64_t)(uintptr_t)(to), from_type, \
					  (uint64_t)(uintptr_t)(from), bytes); \
		return copy_in(&made, stream, is_sync); \
	}

COPY(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), UNIFIED, to, UNIFIED, from, NULL, true)
COPY(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), UNIFIED, to,
     UNIFIED, from, stream, false)
COPY(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), DEVICE, to, HOST, from, NULL,
     true)
COPY(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), DEVICE,
     to, HOST, from, stream, false)
COPY(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), HOST, to, DEVICE, from, NULL, true)
COPY(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), HOST, to,
     DEVICE, from, stream, false)
COPY(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), DEVICE, to, DEVICE, from,
     NULL, true)
COPY(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), DEVICE,
     to, DEVICE, from, stream, false)
COPY(cuMemcpyPeer,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
     DEVICE, ((void)to_context, (void)from_context, to), DEVICE, from, NULL, true)
COPY(cuMemcpyPeerAsync,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
      CUstream stream),
     DEVICE, ((void)to_context, (void)from_context, to), DEVICE, from, stream, false)

static CUresult between_arrays(CUDA_MEMCPY3D copy, CUstream stream, bool is_sync)
{
	copy.Height = copy.Depth = 1;
	return copy_in(&copy, stream, is_sync);
}

#define COPY_ARRAY(symbol, params, stream, is_sync, ...) \
	SIM_EXPORT CUresult symbol params \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return between_arrays((CUDA_MEMCPY3D){.WidthInBytes = bytes, __VA_ARGS__}, stream, \
				      is_sync); \
	}

#define TO_ARRAY .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = to, .dstXInBytes = to_offset
#define FROM_ARRAY .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = from, .srcXInBytes = from_offset

COPY_ARRAY(cuMemcpyHtoA_v2, (CUarray to, size_t to_offset, const void *from, size_t bytes), NULL, true,
	   TO_ARRAY, .srcMemoryType = HOST, .srcHost = from)
COPY_ARRAY(cuMemcpyHtoAAsync_v2,
	   (CUarray to, size_t to_offset, const void *from, size_t bytes, CUstream stream), stream,
	   false, TO_ARRAY, .srcMemoryType = HOST, .srcHost = from)
COPY_ARRAY(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t from_offset, size_t bytes), NULL, true,
	   FROM_ARRAY, .dstMemoryType = HOST, .dstHost = to)
COPY_ARRAY(cuMemcpyAtoHAsync_v2,
	   (void *to, CUarray from, size_t from_offset, size_t bytes, CUstream stream), stream, false,
	   FROM_ARRAY, .dstMemoryType = HOST, .dstHost = to)
COPY_ARRAY(cuMemcpyDtoA_v2, (CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes), NULL, true,
	   TO_ARRAY, .srcMemoryType = DEVICE, .srcDevice = from)
COPY_ARRAY(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes), NULL,
	   true, FROM_ARRAY, .dstMemoryType = DEVICE, .dstDevice = to)
COPY_ARRAY(cuMemcpyAtoA_v2,
	   (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes), NULL, true,
	   TO_ARRAY, FROM_ARRAY)

static CUresult flat(const CUDA_MEMCPY2D *copy, CUstream stream, bool is_sync)
{
	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_in(&(CUDA_MEMCPY3D){.srcXInBytes = copy->srcXInBytes,
					.srcY = copy->srcY,
					.srcMemoryType = copy->srcMemoryType,
					.srcHost = copy->srcHost,
					.srcDevice = copy->srcDevice,
					.srcArray = copy->srcArray,
					.srcPitch = copy->srcPitch,
					.dstXInBytes = copy->dstXInBytes,
					.dstY = copy->dstY,
					.dstMemoryType = copy->dstMemoryType,
					.dstHost = copy->dstHost,
					.dstDevice = copy->dstDevice,
					.dstArray = copy->dstArray,
					.dstPitch = copy->dstPitch,
					.WidthInBytes = copy->WidthInBytes,
					.Height = copy->Height,
					.Depth = 1},
		       stream, is_sync);
}

#define COPY_SHAPED(symbol, type, how) \
	SIM_EXPORT CUresult symbol(const type *copy) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return copy ? how(copy, NULL, true) : CUDA_ERROR_INVALID_VALUE; \
	}
#define COPY_SHAPED_ASYNC(symbol, type, how) \
	SIM_EXPORT CUresult symbol(const type *copy, CUstream stream) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return copy ? how(copy, stream, false) : CUDA_ERROR_INVALID_VALUE; \
	}

COPY_SHAPED(cuMemcpy2D_v2, CUDA_MEMCPY2D, flat)
COPY_SHAPED(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, flat)
COPY_SHAPED_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, flat)
COPY_SHAPED(cuMemcpy3D_v2, CUDA_MEMCPY3D, copy_in)
COPY_SHAPED_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, copy_in)
COPY_SHAPED(cuMemcpy3DPeer, CUDA_MEMCPY3D, copy_in)
COPY_SHAPED_ASYNC(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D, copy_in)

static CUresult batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes,
		      size_t count, CUstream stream)
{
	if (!to || !from || !bytes || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUDA_MEMCPY3D copy = line(UNIFIED, to[i], UNIFIED, from[i], bytes[i]);
		CUresult cr = copy_in(&copy, stream, false);

		if (cr != CUDA_SUCCESS)
			return cr;
	}
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
				       size_t count, void *attributes, size_t *first_of,
				       size_t attribute_count, size_t *failed, CUstream stream)
{
	(void)attributes, (void)first_of, (void)attribute_count, (void)failed;
	SIM_ENTER();
	return batch(to, from, bytes, count, stream);
}

SIM_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
					  size_t count, void *attributes, size_t *first_of,
					  size_t attribute_count, CUstream stream)
{
	(void)attributes, (void)first_of, (void)attribute_count;
	SIM_ENTER();
	return batch(to, from, bytes, count, stream);
}

/* --- fills --- */

#define FILL(symbol, size, type) \
	SIM_EXPORT CUresult symbol##_v2(CUdeviceptr to, type value, size_t count) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return fill_in(&(CUDA_MEMSET_NODE_PARAMS){to, 0, value, size, count, 1, NULL}, NULL, \
			       true); \
	} \
	SIM_EXPORT CUresult symbol##Async(CUdeviceptr to, type value, size_t count, CUstream stream) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return fill_in(&(CUDA_MEMSET_NODE_PARAMS){to, 0, value, size, count, 1, NULL}, \
			       stream, false); \
	}
#define FILL_ROWS(symbol, size, type) \
	SIM_EXPORT CUresult symbol##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, \
					size_t height) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return fill_in( \
			&(CUDA_MEMSET_NODE_PARAMS){to, pitch, value, size, width, height, NULL}, \
			NULL, true); \
	} \
	SIM_EXPORT CUresult symbol##Async(CUdeviceptr to, size_t pitch, type value, size_t width, \
					  size_t height, CUstream stream) \
	{ \
		CUcontext context; \
		SIM_ENTER_CONTEXT(context); \
		return fill_in( \
			&(CUDA_MEMSET_NODE_PARAMS){to, pitch, value, size, width, height, NULL}, \
			stream, false); \
	}

FILL(cuMemsetD8, 1, unsigned char)
FILL(cuMemsetD16, 2, unsigned short)
FILL(cuMemsetD32, 4, unsigned int)
FILL_ROWS(cuMemsetD2D8, 1, unsigned char)
FILL_ROWS(cuMemsetD2D16, 2, unsigned short)
FILL_ROWS(cuMemsetD2D32, 4, unsigned int)
