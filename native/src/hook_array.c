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

HOOK_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v2 *descriptor)
{
	if (!real_load(REAL_CUDA) || !real.cuArrayCreate_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!array || !descriptor)
		return real.cuArrayCreate_v2(array, descriptor);
	const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {
		.Width = descriptor->Width,
		.Height = descriptor->Height,
		.Format = descriptor->Format,
		.NumChannels = descriptor->NumChannels,
	};
	struct hook_taking taking;
	CUresult cr = hook_take_begin(array_size_bytes(&shape, 1), &taking);
	return cr == CUDA_SUCCESS ?
		       end_array(&taking, real.cuArrayCreate_v2(array, descriptor), array) :
		       cr;
}

HOOK_EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor)
{
	if (!real_load(REAL_CUDA) || !real.cuArrayCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!array || !descriptor)
		return real.cuArrayCreate(array, descriptor);
	const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {
		.Width = descriptor->Width,
		.Height = descriptor->Height,
		.Format = descriptor->Format,
		.NumChannels = descriptor->NumChannels,
	};
	struct hook_taking taking;
	CUresult cr = hook_take_begin(array_size_bytes(&shape, 1), &taking);
	return cr == CUDA_SUCCESS ?
		       end_array(&taking, real.cuArrayCreate(array, descriptor), array) :
		       cr;
}

HOOK_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v2 *descriptor)
{
	if (!real_load(REAL_CUDA) || !real.cuArray3DCreate_v2)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!array || !descriptor)
		return real.cuArray3DCreate_v2(array, descriptor);
	struct hook_taking taking;
	CUresult cr = hook_take_begin(array_size_bytes(descriptor, 1), &taking);
	return cr == CUDA_SUCCESS ?
		       end_array(&taking, real.cuArray3DCreate_v2(array, descriptor), array) :
		       cr;
}

HOOK_EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor)
{
	if (!real_load(REAL_CUDA) || !real.cuArray3DCreate)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!array || !descriptor)
		return real.cuArray3DCreate(array, descriptor);
	const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = {
		.Width = descriptor->Width,
		.Height = descriptor->Height,
		.Depth = descriptor->Depth,
		.Format = descriptor->Format,
		.NumChannels = descriptor->NumChannels,
		.Flags = descriptor->Flags,
	};
	struct hook_taking taking;
	CUresult cr = hook_take_begin(array_size_bytes(&shape, 1), &taking);
	return cr == CUDA_SUCCESS ?
		       end_array(&taking, real.cuArray3DCreate(array, descriptor), array) :
		       cr;
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
