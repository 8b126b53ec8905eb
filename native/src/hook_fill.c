/*
 * Fills, and copies from the device to the device: work that keeps its memory busy, and often its multiprocessors,
 * and that others wait for. Charged as launches are, by what they are measured to take; their kind is how many
 * bytes there are.
 *
 * Copies that go to or come from the host, or another device, are the bus's time. Those that do not say by their name where
 * they go are in hook_copy.c.
 *
 * Closed, as launches are.
 */
#include "hook_launch.h"
#include "hooks.h"
#include "real.h"

/* The handles of fills and of copies; apart by more than costs_kind() adds to one. */
static const char fills[128], copies[128];

#define FILL_HOOK(symbol, params, call, bytes, stream, is_thread) \
	LAUNCH_HOOK(symbol, params, call, fills, bytes, stream, is_thread)
#define COPY_HOOK(symbol, params, call, stream, is_thread) \
	LAUNCH_HOOK(symbol, params, call, copies, bytes, stream, is_thread)

/* What they take; OLD_…: before CUDA 3.2. */
#define OLD_COPY CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes
#define COPY CUdeviceptr to, CUdeviceptr from, size_t bytes
#define COPY_NAMES to, from, bytes
#define IN_STREAM CUstream stream

#define OLD_LINE(type) CUdeviceptr_v1 to, type value, unsigned int count
#define LINE(type) CUdeviceptr to, type value, size_t count
#define LINE_NAMES to, value, count
#define LINE_BYTES ((uint64_t)count * sizeof value)

#define OLD_ROWS(type) \
	CUdeviceptr_v1 to, unsigned int pitch, type value, unsigned int width, unsigned int height
#define ROWS(type) CUdeviceptr to, size_t pitch, type value, size_t width, size_t height
#define ROWS_NAMES to, pitch, value, width, height
#define ROWS_BYTES ((uint64_t)width * height * sizeof value)

COPY_HOOK(cuMemcpyDtoD, (OLD_COPY), (COPY_NAMES), NULL, false)
COPY_HOOK(cuMemcpyDtoDAsync, (OLD_COPY, IN_STREAM), (COPY_NAMES, stream), stream, false)
COPY_HOOK(cuMemcpyDtoDAsync_v2, (COPY, IN_STREAM), (COPY_NAMES, stream), stream, false)
COPY_HOOK(cuMemcpyDtoDAsync_v2_ptsz, (COPY, IN_STREAM), (COPY_NAMES, stream), stream, true)
COPY_HOOK(cuMemcpyDtoD_v2, (COPY), (COPY_NAMES), NULL, false)
COPY_HOOK(cuMemcpyDtoD_v2_ptds, (COPY), (COPY_NAMES), NULL, true)

FILL_HOOK(cuMemsetD8, (OLD_LINE(unsigned char)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD8_v2, (LINE(unsigned char)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD8_v2_ptds, (LINE(unsigned char)), (LINE_NAMES), LINE_BYTES, NULL, true)
FILL_HOOK(cuMemsetD8Async, (LINE(unsigned char), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, false)
FILL_HOOK(cuMemsetD8Async_ptsz, (LINE(unsigned char), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, true)

FILL_HOOK(cuMemsetD16, (OLD_LINE(unsigned short)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD16_v2, (LINE(unsigned short)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD16_v2_ptds, (LINE(unsigned short)), (LINE_NAMES), LINE_BYTES, NULL, true)
FILL_HOOK(cuMemsetD16Async, (LINE(unsigned short), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, false)
FILL_HOOK(cuMemsetD16Async_ptsz, (LINE(unsigned short), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, true)

FILL_HOOK(cuMemsetD32, (OLD_LINE(unsigned int)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD32_v2, (LINE(unsigned int)), (LINE_NAMES), LINE_BYTES, NULL, false)
FILL_HOOK(cuMemsetD32_v2_ptds, (LINE(unsigned int)), (LINE_NAMES), LINE_BYTES, NULL, true)
FILL_HOOK(cuMemsetD32Async, (LINE(unsigned int), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, false)
FILL_HOOK(cuMemsetD32Async_ptsz, (LINE(unsigned int), IN_STREAM), (LINE_NAMES, stream), LINE_BYTES, stream, true)

FILL_HOOK(cuMemsetD2D8, (OLD_ROWS(unsigned char)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D8_v2, (ROWS(unsigned char)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D8_v2_ptds, (ROWS(unsigned char)), (ROWS_NAMES), ROWS_BYTES, NULL, true)
FILL_HOOK(cuMemsetD2D8Async, (ROWS(unsigned char), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, false)
FILL_HOOK(cuMemsetD2D8Async_ptsz, (ROWS(unsigned char), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, true)

FILL_HOOK(cuMemsetD2D16, (OLD_ROWS(unsigned short)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D16_v2, (ROWS(unsigned short)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D16_v2_ptds, (ROWS(unsigned short)), (ROWS_NAMES), ROWS_BYTES, NULL, true)
FILL_HOOK(cuMemsetD2D16Async, (ROWS(unsigned short), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, false)
FILL_HOOK(cuMemsetD2D16Async_ptsz, (ROWS(unsigned short), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, true)

FILL_HOOK(cuMemsetD2D32, (OLD_ROWS(unsigned int)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D32_v2, (ROWS(unsigned int)), (ROWS_NAMES), ROWS_BYTES, NULL, false)
FILL_HOOK(cuMemsetD2D32_v2_ptds, (ROWS(unsigned int)), (ROWS_NAMES), ROWS_BYTES, NULL, true)
FILL_HOOK(cuMemsetD2D32Async, (ROWS(unsigned int), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, false)
FILL_HOOK(cuMemsetD2D32Async_ptsz, (ROWS(unsigned int), IN_STREAM), (ROWS_NAMES, stream), ROWS_BYTES, stream, true)
