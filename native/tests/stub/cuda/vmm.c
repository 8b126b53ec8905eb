/* Physical allocations: see vmm.h. */
#include "vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "heap.h"
#include "stream.h"

#define NAME "hamid-sim-memory "

CUresult allocation_new(const CUmemAllocationProp *props, uint64_t bytes, CUdevice device, int fd,
			CUmemGenericAllocationHandle *ret_handle)
{
	space_lock();
	CUresult cr = device >= 0 ? heap_take_of_device(device, bytes) : CUDA_SUCCESS;

	space_unlock();
	if (cr != CUDA_SUCCESS)
		return cr;
	struct allocation *made = object_new(OBJECT_ALLOCATION, sizeof *made, NULL);

	if (!made) {
		if (device >= 0)
			sim_give_back(sim_device(device), bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made->props = *props;
	made->bytes = bytes;
	made->device = device;
	made->fd = fd;
	made->handles = 1;
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)made;
	return CUDA_SUCCESS;
}

static CUresult check_props(const CUmemAllocationProp *props, CUdevice *ret_device)
{
	if (!props || (props->type != CU_MEM_ALLOCATION_TYPE_PINNED))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_location(&props->location, ret_device);
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
				const CUmemAllocationProp *props, unsigned long long flags)
{
	CUdevice device;

	SIM_ENTER();
	CUresult cr = check_props(props, &device);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!handle || flags || bytes == 0 || bytes % HEAP_GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	int fd = -1;

	if (props->requestedHandleTypes) {
		char name[PROFILE_TEXT + 32];

		snprintf(name, sizeof name, NAME "%s",
			 device >= 0 ? sim_device(device)->uuid : "host");
		fd = memfd_create(name, MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0) {
			close(fd);
			return CUDA_ERROR_OPERATING_SYSTEM;
		}
	}
	CUmemAllocationProp found = *props;

	if (device >= 0)
		found.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	cr = allocation_new(&found, bytes, device, fd, handle);
	if (cr != CUDA_SUCCESS && fd >= 0)
		close(fd);
	return cr;
}

struct allocation *allocation_of(CUmemGenericAllocationHandle handle)
{
	void *object = (void *)(uintptr_t)handle;

	return object_is(OBJECT_ALLOCATION, object) ? object : NULL;
}

void allocation_end_if_unused(struct allocation *allocation)
{
	if (allocation->handles > 0 || allocation->mappings > 0)
		return;
	if (allocation->of) {
		allocation->of->mappings--;
		allocation_end_if_unused(allocation->of);
	}
	if (allocation->device >= 0)
		sim_give_back(sim_device(allocation->device), allocation->bytes);
	if (allocation->fd >= 0)
		close(allocation->fd);
	if (!object_delete(OBJECT_ALLOCATION, allocation))
		free(allocation);
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	SIM_ENTER();
	struct allocation *allocation = allocation_of(handle);

	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	if (--allocation->handles == 0 && allocation->mappings > 0)
		object_forget(OBJECT_ALLOCATION, allocation);
	allocation_end_if_unused(allocation);
	space_unlock();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *props,
						  int option)
{
	CUdevice device;

	SIM_ENTER();
	CUresult cr = check_props(props, &device);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (!bytes || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = HEAP_GRAIN;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *props,
							   CUmemGenericAllocationHandle handle)
{
	SIM_ENTER();
	const struct allocation *allocation = allocation_of(handle);

	if (!props || !allocation)
		return CUDA_ERROR_INVALID_VALUE;
	*props = allocation->props;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
						 int type, unsigned long long flags)
{
	SIM_ENTER();
	const struct allocation *allocation = allocation_of(handle);

	if (!out || !allocation || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || allocation->fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	int copy = dup(allocation->fd);

	if (copy < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(out, &copy, sizeof copy);
	return CUDA_SUCCESS;
}

/* As object_each() takes them: is this an allocation of this process, with this file? */
struct search {
	struct stat wanted;
	struct allocation *found;
};

static void compare(void *handle, void *argument)
{
	struct allocation *allocation = handle;
	struct search *search = argument;
	struct stat st;

	if (allocation->of)
		allocation = allocation->of;
	if (allocation->device >= 0 && allocation->fd >= 0 &&
	    fstat(allocation->fd, &st) == 0 && st.st_ino == search->wanted.st_ino &&
	    st.st_dev == search->wanted.st_dev)
		search->found = allocation;
}

/* The descriptor stays the program's. */
SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *in,
						   int type)
{
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	int fd = (int)(intptr_t)in;
	struct stat st;

	SIM_ENTER();
	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_named_device(fd, NAME, &props.location.id) || fstat(fd, &st) < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	int copy = dup(fd);

	if (copy < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	CUresult cr = allocation_new(&props, (uint64_t)st.st_size, -1, copy, handle);

	if (cr != CUDA_SUCCESS) {
		close(copy);
		return cr;
	}
	struct search search = {.wanted = st};

	object_each(OBJECT_ALLOCATION, compare, &search);
	space_lock();
	if (search.found) {
		allocation_of(*handle)->of = search.found;
		search.found->mappings++;
	}
	space_unlock();
	return cr;
}
