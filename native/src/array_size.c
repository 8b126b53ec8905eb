#include "array_size.h"

#include <stdbool.h>

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* An array takes whole pages of this size. */
#define PAGE_BYTES (64ull << 10)

/*
 * The device keeps what has rows in tiles, and so narrow or low arrays take many times their elements: at least such
 * tiles as drm_fourcc.h of Linux has for its block linear layouts.
 */
#define TILE_BYTES 64u
#define TILE_ROWS 8u

/* Up to a multiple of `part`; saturates. */
static uint64_t whole(uint64_t n, uint64_t part)
{
	return n > UINT64_MAX - part ? UINT64_MAX : (n + part - 1) / part * part;
}

static uint64_t or_one(uint64_t extent)
{
	return extent ? extent : 1;
}

/* Bits of one element with all its channels; formats that fix the channels come first. */
static uint64_t element_bits(CUarray_format format, unsigned int channels)
{
	switch (format) {
	case 0x91: case 0x92: /* BC1 */
	case 0x97: case 0x98: /* BC4 */
		return 4;
	case 0x93: case 0x94: case 0x95: case 0x96: /* BC2, BC3 */
	case 0x99: case 0x9a: case 0x9b: case 0x9c: case 0x9d: case 0x9e: /* BC5 to BC7 */
	case 0xc0: case 0xc6: /* NORM_INT8X1 */
		return 8;
	case 0xb0: case 0x53: case 0x59: /* NV12 and other 4:2:0 of 8 bits */
		return 12;
	case 0xa2: case 0xa5: case 0x51: case 0x55: case 0x5b: /* NV16, YUY2: 4:2:2 */
	case 0xc1: case 0xc7: case 0xc3: case 0xc9: /* NORM_INT8X2, INT16X1 */
		return 16;
	case 0x9f: case 0xa1: case 0xb2: case 0xb4: /* P010, P016, Y444 of 8 bits */
	case 0x54: case 0x57: case 0x5a: case 0x5d:
		return 24;
	case 0xa3: case 0xa4: case 0xa6: case 0xa7: case 0xa8: case 0xa9: case 0x50: case 0x52: case 0x56: case 0x5c:
	case 0xc2: case 0xc8: case 0xc4: case 0xca: /* NORM_INT8X4, INT16X2 */
		return 32;
	case 0xb3: case 0xb5: case 0x58: case 0x5e: /* Y444 of 10 and 16 bits */
		return 48;
	case 0xb1: case 0xc5: case 0xcb: /* Y416, NORM_INT16X4 */
		return 64;
	case 0x01: case 0x08: /* INT8 */
		return 8 * (uint64_t)channels;
	case 0x02: case 0x09: case 0x10: /* INT16, HALF */
		return 16 * (uint64_t)channels;
	default: /* INT32, FLOAT, and what is not known: no less than that */
		return 32 * (uint64_t)channels;
	}
}

/* Is it in tiles of rows of elements, as far as we know? Not of formats that are compressed or have planes. */
static bool is_tiled(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor)
{
	return descriptor->Height && descriptor->Format <= 0x20;
}

/* One level's; saturates. */
static uint64_t level_bytes(uint64_t width, uint64_t height, uint64_t depth, uint64_t bits, bool is_in_tiles)
{
	const uint64_t row_bits = times(or_one(width), bits);
	if (row_bits == UINT64_MAX)
		return UINT64_MAX;
	if (is_in_tiles)
		return times(times(whole(row_bits / 8, TILE_BYTES), whole(height, TILE_ROWS)), depth);
	const uint64_t all_bits = times(times(row_bits, height), depth);
	return all_bits == UINT64_MAX ? UINT64_MAX : all_bits / 8;
}

uint64_t array_size_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor, unsigned int level_count)
{
	if (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	const int has_layers = (descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
	const uint64_t bits = element_bits(descriptor->Format, descriptor->NumChannels);
	uint64_t width = descriptor->Width, height = or_one(descriptor->Height);
	uint64_t depth = or_one(descriptor->Depth), total = 0;
	for (unsigned int level = 0; level < level_count && level < 64; level++) {
		total = plus(total, level_bytes(width, height, depth, bits, is_tiled(descriptor)));
		if (width <= 1 && height == 1 && (has_layers || depth == 1))
			break; /* there are no smaller levels */
		width /= 2;
		height = or_one(height / 2);
		depth = has_layers ? depth : or_one(depth / 2);
	}
	return whole(total, PAGE_BYTES);
}
