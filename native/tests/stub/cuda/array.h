/* Arrays as copies see them: rows of whole elements, one after the other. */
#pragma once

#include "object.h"
#include "space.h"

struct CUarray_st {
	struct object object;
	CUDA_ARRAY3D_DESCRIPTOR shape;
	struct block *block; /* NULL: sparse, deferred, or a level */
	uint64_t address;    /* 0: nothing is behind it */
	CUmipmappedArray level_of;
	CUdevice device;
	struct tile *tiles; /* of a sparse array, what is mapped (sparse.c) */
};

/* What is mapped into an array goes with it. */
void sparse_drop(CUarray array);

uint64_t array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape);
