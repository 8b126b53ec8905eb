/* array_size.c. */
#include "array_size.h"
#include "test.h"

#define KIB 1024ull
#define MIB (KIB * KIB)
#define BYTE 1 /* CU_AD_FORMAT_UNSIGNED_INT8 */
#define FLOAT 0x20

static uint64_t size_of(size_t width, size_t height, size_t depth, int format, unsigned int flags)
{
	const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {
		.Width = width, .Height = height, .Depth = depth,
		.Format = format, .NumChannels = 1, .Flags = flags,
	};
	return array_size_bytes(&shape, 1);
}

int main(void)
{
	CHECK("an array takes what its elements take, in pages of 64 KiB")
	{
		EXPECT_EQUAL(size_of(1024, 1024, 0, FLOAT, 0), 4 * MIB);
		EXPECT_EQUAL(size_of(64, 64, 64, FLOAT, 0), MIB);
		EXPECT_EQUAL(size_of(1, 0, 0, BYTE, 0), 64 * KIB);
		EXPECT_EQUAL(size_of(64 * KIB + 1, 0, 0, BYTE, 0), 128 * KIB);
	}

	CHECK("rows are no narrower than a tile, and no fewer than are in one")
	{
		EXPECT_EQUAL(size_of(1, 1024, 1024, BYTE, 0), 64 * MIB);
		EXPECT_EQUAL(size_of(16, 1, 16 * KIB, FLOAT, 0), 8 * MIB);
		EXPECT_EQUAL(size_of(65, 1024, 1024, BYTE, 0), 128 * MIB);
		EXPECT_EQUAL(size_of(1, 1024, 1024, BYTE, CUDA_ARRAY3D_LAYERED), 64 * MIB);
	}

	CHECK("what has no rows, or is compressed, takes no more than it holds")
	{
		EXPECT_EQUAL(size_of(16, 0, 16 * KIB, BYTE, CUDA_ARRAY3D_LAYERED), 256 * KIB);
		EXPECT_EQUAL(size_of(4, 64 * KIB, 0, 0x91, 0), 128 * KIB); /* BC1: half a byte each */
	}

	CHECK("what is mapped later takes nothing yet")
	{
		EXPECT_EQUAL(size_of(1024, 1024, 0, FLOAT, CUDA_ARRAY3D_SPARSE), 0);
		EXPECT_EQUAL(size_of(1024, 1024, 0, FLOAT, CUDA_ARRAY3D_DEFERRED_MAPPING), 0);
	}

	CHECK("mipmaps are all their levels, and no more than there are")
	{
		const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {
			.Width = 256, .Height = 256, .Format = FLOAT, .NumChannels = 1,
		};
		const uint64_t first = 256 * KIB, second = 64 * KIB;
		EXPECT_EQUAL(array_size_bytes(&shape, 2), first + second);
		EXPECT_EQUAL(array_size_bytes(&shape, 9), array_size_bytes(&shape, 60));
	}

	CHECK("what is beyond all counting is the most that there is")
	{
		EXPECT(size_of(SIZE_MAX, SIZE_MAX, SIZE_MAX, FLOAT, 0) == UINT64_MAX);
		EXPECT(size_of(SIZE_MAX, 0, 0, FLOAT, 0) == UINT64_MAX);
		EXPECT(size_of(SIZE_MAX / 64, 1, 1, BYTE, 0) > UINT64_MAX / 128);
	}
	return test_report();
}
