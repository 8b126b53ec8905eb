/*
 * Copies that do not say by their name whether they leave the device: of unified addresses, of shapes, of batches; and
 * those between arrays, which stay. What stays is charged as the copies of hook_fill.c are. Where each side is, the
 * driver is asked, and only while something has a cap.
 *
 * Of a batch the first few that are in it say where it goes; how long it takes is measured as a whole.
 *
 * Closed, as launches are; but a copy of which the driver does not say where it goes is not charged.
 */
#include "context.h"
#include "hook_launch.h"
#include "hooks.h"
#include "real.h"

/* Names kinds of copies, see hook_fill.c. Shapes take longer than lines of as many bytes, and batches than either. */
static const char lines[128], shapes[128], batches[128];

#define BATCH_ASKED 16u

enum side { ELSEWHERE = -1, ARRAY = -2 }; /* else the ordinal of its device; 0 where there is but one */

static int side_of(CUdeviceptr address)
{
	unsigned int type = 0;
	int ordinal = 0;
	if (!real.cuPointerGetAttribute ||
	    real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
	    type != CU_MEMORYTYPE_DEVICE)
		return ELSEWHERE;
	if (atomic_load_explicit(&context_has_several, memory_order_relaxed) &&
	    real.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
		    CUDA_SUCCESS)
		return ELSEWHERE;
	return ordinal;
}

static int typed_side(CUmemorytype type, CUdeviceptr address)
{
	return type == CU_MEMORYTYPE_ARRAY ? (int)ARRAY :
	       type == CU_MEMORYTYPE_HOST  ? (int)ELSEWHERE :
					     side_of(address);
}

static bool is_one_device(int to, int from)
{
	return to != ELSEWHERE && from != ELSEWHERE && (to == from || to == ARRAY || from == ARRAY);
}

static bool line_stays(CUdeviceptr to, CUdeviceptr from)
{
	return is_one_device(side_of(to), side_of(from));
}

static bool rows_stay(const CUDA_MEMCPY2D_v2 *copy)
{
	return copy && is_one_device(typed_side(copy->dstMemoryType, copy->dstDevice),
				     typed_side(copy->srcMemoryType, copy->srcDevice));
}

static uint64_t rows_bytes(const CUDA_MEMCPY2D_v2 *copy)
{
	return copy->WidthInBytes * copy->Height;
}

static bool cuboid_stays(const CUDA_MEMCPY3D_v2 *copy)
{
	return copy && is_one_device(typed_side(copy->dstMemoryType, copy->dstDevice),
				     typed_side(copy->srcMemoryType, copy->srcDevice));
}

static uint64_t cuboid_bytes(const CUDA_MEMCPY3D_v2 *copy)
{
	return copy->WidthInBytes * copy->Height * copy->Depth;
}

static bool batch_stays(const CUdeviceptr *to, const CUdeviceptr *from, size_t count)
{
	bool stays = false;
	for (size_t i = 0; to && from && i < count && i < BATCH_ASKED && !stays; i++)
		stays = line_stays(to[i], from[i]);
	return stays;
}

static uint64_t batch_bytes(const size_t *sizes, size_t count)
{
	uint64_t bytes = 0;
	for (size_t i = 0; sizes && i < count; i++)
		bytes += sizes[i];
	return bytes;
}

/* Need it be asked where it goes? */
static bool may_be_charged(CUstream stream)
{
	if (atomic_load_explicit(&launch_capped, memory_order_relaxed))
		return true;
	if (launch_until_look) {
		launch_until_look--;
		return false;
	}
	launch_look(stream);
	return atomic_load_explicit(&launch_capped, memory_order_relaxed) != 0;
}

/* The hook `symbol`: run `call` of the real one, as a launch if it `stays`. */
#define COPY_HOOK(symbol, params, call, stays, kind, bytes_, stream_, is_thread) \
	HOOK_EXPORT CUresult symbol params \
	{ \
		if (!real_load(REAL_CUDA) || !real.symbol) \
			return CUDA_ERROR_NOT_INITIALIZED; \
		if (!may_be_charged(stream_) || !(stays)) \
			return real.symbol call; \
		LAUNCH_RETURN(launch_begin, symbol, call, kind, bytes_, stream_, is_thread); \
	}

#define LINE_HOOK(symbol, stream, is_thread, params, call) \
	COPY_HOOK(symbol, params, call, line_stays(to, from), lines, bytes, stream, is_thread)
#define ROWS_HOOK(symbol, stream, is_thread, params, call) \
	COPY_HOOK(symbol, params, call, rows_stay(copy), shapes, rows_bytes(copy), stream, is_thread)
#define CUBOID_HOOK(symbol, stream, is_thread, params, call) \
	COPY_HOOK(symbol, params, call, cuboid_stays(copy), shapes, cuboid_bytes(copy), stream, is_thread)
#define ARRAY_HOOK(symbol, is_thread, params, call) \
	COPY_HOOK(symbol, params, call, true, shapes, bytes, NULL, is_thread)
#define BATCH_HOOK(symbol, is_thread, params, call) \
	COPY_HOOK(symbol, params, call, batch_stays(to, from, count), batches, batch_bytes(sizes, count), \
		  stream, is_thread)

LINE_HOOK(cuMemcpy, NULL, false, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
LINE_HOOK(cuMemcpy_ptds, NULL, true, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
LINE_HOOK(cuMemcpyAsync, stream, false, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
	  (to, from, bytes, stream))
LINE_HOOK(cuMemcpyAsync_ptsz, stream, true,
	  (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream))

ROWS_HOOK(cuMemcpy2D_v2, NULL, false, (const CUDA_MEMCPY2D_v2 *copy), (copy))
ROWS_HOOK(cuMemcpy2D_v2_ptds, NULL, true, (const CUDA_MEMCPY2D_v2 *copy), (copy))
ROWS_HOOK(cuMemcpy2DUnaligned_v2, NULL, false, (const CUDA_MEMCPY2D_v2 *copy), (copy))
ROWS_HOOK(cuMemcpy2DUnaligned_v2_ptds, NULL, true, (const CUDA_MEMCPY2D_v2 *copy), (copy))
ROWS_HOOK(cuMemcpy2DAsync_v2, stream, false, (const CUDA_MEMCPY2D_v2 *copy, CUstream stream), (copy, stream))
ROWS_HOOK(cuMemcpy2DAsync_v2_ptsz, stream, true, (const CUDA_MEMCPY2D_v2 *copy, CUstream stream),
	  (copy, stream))

CUBOID_HOOK(cuMemcpy3D_v2, NULL, false, (const CUDA_MEMCPY3D_v2 *copy), (copy))
CUBOID_HOOK(cuMemcpy3D_v2_ptds, NULL, true, (const CUDA_MEMCPY3D_v2 *copy), (copy))
CUBOID_HOOK(cuMemcpy3DAsync_v2, stream, false, (const CUDA_MEMCPY3D_v2 *copy, CUstream stream), (copy, stream))
CUBOID_HOOK(cuMemcpy3DAsync_v2_ptsz, stream, true, (const CUDA_MEMCPY3D_v2 *copy, CUstream stream),
	    (copy, stream))

#define A_TO_A (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
#define A_TO_D (CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes)
#define D_TO_A (CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes)

ARRAY_HOOK(cuMemcpyAtoA_v2, false, A_TO_A, (to, to_offset, from, from_offset, bytes))
ARRAY_HOOK(cuMemcpyAtoA_v2_ptds, true, A_TO_A, (to, to_offset, from, from_offset, bytes))
ARRAY_HOOK(cuMemcpyAtoD_v2, false, A_TO_D, (to, from, from_offset, bytes))
ARRAY_HOOK(cuMemcpyAtoD_v2_ptds, true, A_TO_D, (to, from, from_offset, bytes))
ARRAY_HOOK(cuMemcpyDtoA_v2, false, D_TO_A, (to, to_offset, from, bytes))
ARRAY_HOOK(cuMemcpyDtoA_v2_ptds, true, D_TO_A, (to, to_offset, from, bytes))

#define BATCH \
	CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, \
		size_t *first_of, size_t attribute_count
#define BATCH_NAMES to, from, sizes, count, attributes, first_of, attribute_count

BATCH_HOOK(cuMemcpyBatchAsync, false, (BATCH, size_t *failed, CUstream stream), (BATCH_NAMES, failed, stream))
BATCH_HOOK(cuMemcpyBatchAsync_ptsz, true, (BATCH, size_t *failed, CUstream stream),
	   (BATCH_NAMES, failed, stream))
BATCH_HOOK(cuMemcpyBatchAsync_v2, false, (BATCH, CUstream stream), (BATCH_NAMES, stream))
BATCH_HOOK(cuMemcpyBatchAsync_v2_ptsz, true, (BATCH, CUstream stream), (BATCH_NAMES, stream))
