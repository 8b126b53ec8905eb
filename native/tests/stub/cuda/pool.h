/* Memory pools as other files see them. */
#pragma once

#include "heap.h"
#include "object.h"

struct CUmemPoolHandle_st {
	struct object object;
	struct heap heap; /* under space_lock */
	uint64_t threshold; /* bytes kept at a sync point */
	int reuse[3];       /* settings that change nothing here */
	int handle_types;
	unsigned short usage;
	bool is_default, is_imported, is_destroyed, is_managed;
};

/* The pool that cuMemAllocAsync takes from; NULL when there is no memory for it. */
CUmemoryPool pool_of_device(CUdevice device);

/* Take and give outside captures; under no lock. */
CUresult pool_take(CUmemoryPool pool, uint64_t bytes, CUdeviceptr *ret_address);

/* INVALID_VALUE when no block of a pool begins there. */
CUresult pool_give(uint64_t address);
