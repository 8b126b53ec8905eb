/*
 * Arrays, mipmapped arrays and imported memory of other APIs: things with a handle that hold memory
 * of the current device until they are destroyed.
 *
 * The driver does not say how much an array takes; it is computed from its shape (array_size.c).
 * Imported external memory belongs to an API that nobody counts, so who imports it is charged.
 *
 * Fails closed.
 */
#include "array_size.h"
#include "hook_pool.h"
#include "hooks.h"
#include "real.h"

static CUresult end_array(const struct hook_taking *taking, CUresult made, CUarray *array)
{
	CUresult cr = hook_take_end(taking, made, LEDGER_ARRAY,
				   made == CUDA_SUCCESS ? (uintptr_t)*array : 0);
	if (made == CUDA_SUCCESS && cr != CUDA_SUCCESS)
		real.cuArrayDestroy(*array);
	return cr;
}

/* Run the real `symbol`, which makes an array of what is in its descriptor. */
#define CREATE(symbol, ...) \
	do { \
		if (!real_load(REAL_CUDA) || !real.symbol) \
			return CUDA_ERROR_NOT_INITIALIZED; \
		if (!array || !descriptor) \
			return real.symbol(array, descriptor); \
		const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {__VA_ARGS__}; \
		struct hook_taking taking; \
		const CUresult cr = hook_take_begin(array_size_bytes(&shape, 1), &taking); \
		if (cr != CUDA_SUCCESS) \
			return cr; \
		return end_array(&taking, real.symbol(array, descriptor), array); \
	} while (0)

#define FLAT \
	.Width = descriptor->Width, .Height = descriptor->Height, .Format = descriptor->Format, \
	.NumChannels = descriptor->NumChannels
#define DEEP FLAT, .Depth = descriptor->Depth, .Flags = descriptor->Flags

HOOK_EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor)
{
	CREATE(cuArrayCreate, FLAT);
}

HOOK_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v2 *descriptor)
{
	CREATE(cuArrayCreate_v2, FLAT);
}

HOOK_EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor)
{
	CREATE(cuArray3DCreate, DEEP);
}

HOOK_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor)
{
	CREATE(cuArray3DCreate_v2, DEEP);
}

HOOK_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap,
					    const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor,
					    unsigned int level_count)
{
	if (!real_load(REAL_CUDA) || !real.cuMipmappedArrayCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!mipmap || !descriptor)
		return real.cuMipmappedArrayCreate(mipmap, descriptor, level_count);
	struct hook_taking taking;
	CUresult cr = hook_take_begin(array_size_bytes(descriptor, level_count ? level_count : 1), &taking);
	if (cr != CUDA_SUCCESS)
		return cr;
	CUresult made = real.cuMipmappedArrayCreate(mipmap, descriptor, level_count);
	cr = hook_take_end(&taking, made, LEDGER_MIPMAP, made == CUDA_SUCCESS ? (uintptr_t)*mipmap : 0);
	if (made == CUDA_SUCCESS && cr != CUDA_SUCCESS)
		real.cuMipmappedArrayDestroy(*mipmap);
	return cr;
}

HOOK_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory,
					    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1 *descriptor)
{
	if (!real_load(REAL_CUDA) || !real.cuImportExternalMemory)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!memory || !descriptor)
		return real.cuImportExternalMemory(memory, descriptor);
	struct hook_taking taking;
	CUresult cr = hook_take_begin(descriptor->size, &taking);
	if (cr != CUDA_SUCCESS)
		return cr;
	CUresult made = real.cuImportExternalMemory(memory, descriptor);
	cr = hook_take_end(&taking, made, LEDGER_EXTERNAL,
			   made == CUDA_SUCCESS ? (uintptr_t)*memory : 0);
	if (made == CUDA_SUCCESS && cr != CUDA_SUCCESS)
		real.cuDestroyExternalMemory(*memory);
	return cr;
}

/* --- destroying --- */

static CUresult settle(CUresult cr, int taken, const struct ledger_entry *entry)
{
	if (taken == 0 && cr == CUDA_SUCCESS)
		ledger_release(entry);
	else if (taken == 0)
		ledger_put_back(entry);
	return cr;
}

HOOK_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	if (!real_load(REAL_CUDA) || !real.cuArrayDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	int taken = ledger_take(LEDGER_ARRAY, (uintptr_t)array, &entry);
	return settle(real.cuArrayDestroy(array), taken, &entry);
}

HOOK_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
	if (!real_load(REAL_CUDA) || !real.cuMipmappedArrayDestroy)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	int taken = ledger_take(LEDGER_MIPMAP, (uintptr_t)mipmap, &entry);
	return settle(real.cuMipmappedArrayDestroy(mipmap), taken, &entry);
}

HOOK_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	if (!real_load(REAL_CUDA) || !real.cuDestroyExternalMemory)
		return CUDA_ERROR_NOT_INITIALIZED;
	struct ledger_entry entry;
	int taken = ledger_take(LEDGER_EXTERNAL, (uintptr_t)memory, &entry);
	return settle(real.cuDestroyExternalMemory(memory), taken, &entry);
}
