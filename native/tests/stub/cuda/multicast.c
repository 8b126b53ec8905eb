/* Multicast objects: memory of several devices under one address. They hold nothing themselves. */
#include "stream.h"
#include "vmm.h"

static CUresult check(const CUmulticastObjectProp *props)
{
	if (!props || props->flags || props->numDevices == 0 ||
	    props->numDevices > (unsigned int)sim_device_count())
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *props,
					      int option)
{
	SIM_ENTER();
	CUresult cr = check(props);

	if (cr == CUDA_SUCCESS && (!bytes || option < 0 || option > 1))
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr == CUDA_SUCCESS)
		*bytes = HEAP_GRAIN;
	return cr;
}

SIM_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
				      const CUmulticastObjectProp *props)
{
	static const CUmemAllocationProp nowhere = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

	SIM_ENTER();
	CUresult cr = check(props);

	if (cr == CUDA_SUCCESS && (!handle || props->size == 0 || props->size % HEAP_GRAIN))
		cr = CUDA_ERROR_INVALID_VALUE;
	return cr == CUDA_SUCCESS ? allocation_new(&nowhere, props->size, -1, -1, handle) : cr;
}

SIM_EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
	SIM_ENTER();
	if (!allocation_of(handle))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult bind(CUmemGenericAllocationHandle handle, size_t offset, size_t bytes)
{
	const struct allocation *object = allocation_of(handle);

	if (!object || bytes == 0 || bytes % HEAP_GRAIN || offset % HEAP_GRAIN ||
	    offset > object->bytes || bytes > object->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
				       CUmemGenericAllocationHandle memory, size_t memory_offset,
				       size_t bytes, unsigned long long flags)
{
	SIM_ENTER();
	const struct allocation *bound = allocation_of(memory);

	if (flags || !bound || memory_offset > bound->bytes || bytes > bound->bytes - memory_offset)
		return CUDA_ERROR_INVALID_VALUE;
	return bind(handle, offset, bytes);
}

SIM_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
					CUdeviceptr address, size_t bytes, unsigned long long flags)
{
	SIM_ENTER();
	if (flags || !space_holds(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return bind(handle, offset, bytes);
}

SIM_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
				      size_t offset, size_t bytes)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return bind(handle, offset, bytes);
}
