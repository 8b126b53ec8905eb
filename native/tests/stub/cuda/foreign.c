/* See foreign.h: IPC memory handles, and memory of other drivers. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stream.h"

#define HANDLE_MAGIC 0x4850494d44494d41ull
#define IPC_LAZY_PEER_ACCESS 1

struct ipc_handle {
	uint64_t magic, address, bytes;
	uint8_t uuid[16];
	int64_t pid;
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "it travels in there");

struct foreign {
	struct span span;
	struct ipc_handle handle; /* of those opened by one */
	int openings;
};

CUresult foreign_open(uint64_t bytes, CUdevice device, CUcontext context, CUdeviceptr *ret_address)
{
	struct foreign *foreign = calloc(1, sizeof *foreign);
	void *memory = bytes ? space_map(bytes, 4096, PROT_READ | PROT_WRITE, 0) : NULL;
	bool is_done = false;

	if (foreign && memory) {
		foreign->openings = 1;
		foreign->span = (struct span){.address = (uint64_t)(uintptr_t)memory,
					      .bytes = bytes,
					      .kind = SPAN_FOREIGN,
					      .device = device,
					      .context = context,
					      .owner = foreign};
		space_lock();
		is_done = span_add(&foreign->span);
		space_unlock();
	}
	if (!is_done) {
		if (memory)
			munmap(memory, bytes);
		free(foreign);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_address = foreign->span.address;
	return CUDA_SUCCESS;
}

CUresult foreign_close(uint64_t address)
{
	space_lock();
	struct span *span = span_at(address);
	bool is_it = span && span->kind == SPAN_FOREIGN && span->address == address;
	bool is_last = is_it && --((struct foreign *)span->owner)->openings == 0;

	if (is_last)
		span_remove(span);
	space_unlock();
	if (!is_it)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_last)
		return CUDA_SUCCESS;
	munmap((void *)(uintptr_t)address, span->bytes);
	free(span->owner);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct place place;

	SIM_ENTER();
	if (!handle || !space_place(address, &place) || place.kind != SPAN_HEAP || place.pool)
		return CUDA_ERROR_INVALID_VALUE;
	struct ipc_handle made = {.magic = HANDLE_MAGIC,
				  .address = place.address,
				  .bytes = place.bytes,
				  .pid = getpid()};

	memcpy(made.uuid, sim_device(place.device)->uuid_bytes, sizeof made.uuid);
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &made, sizeof made);
	return CUDA_SUCCESS;
}

/* Opened by this handle in this context already? Then once more, at the same address. */
static bool open_again(const struct ipc_handle *handle, CUcontext context, CUdeviceptr *ret_address)
{
	bool is_open = false;

	space_lock();
	for (size_t i = 0; !is_open && span_by_index(i); i++) {
		struct span *span = span_by_index(i);
		struct foreign *foreign = span->kind == SPAN_FOREIGN ? span->owner : NULL;

		is_open = foreign && span->context == context &&
			  memcmp(&foreign->handle, handle, sizeof *handle) == 0;
		if (is_open) {
			foreign->openings++;
			*ret_address = span->address;
		}
	}
	space_unlock();
	return is_open;
}

static void remember(const struct ipc_handle *handle, CUdeviceptr address)
{
	space_lock();
	((struct foreign *)span_at(address)->owner)->handle = *handle;
	space_unlock();
}

SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
					  unsigned int flags)
{
	CUcontext context;
	struct ipc_handle given;

	SIM_ENTER_CONTEXT(context);
	memcpy(&given, &handle, sizeof given);
	if (!address || flags > IPC_LAZY_PEER_ACCESS || given.magic != HANDLE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (given.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open its own */
	if (memcmp(given.uuid, sim_device(context->device)->uuid_bytes, sizeof given.uuid) != 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (open_again(&given, context, address))
		return CUDA_SUCCESS;
	CUresult cr = foreign_open(given.bytes, context->device, context, address);

	if (cr == CUDA_SUCCESS)
		remember(&given, *address);
	return cr;
}

SIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
				       unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(address, handle, flags);
}

SIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	SIM_ENTER();
	return foreign_close(address);
}

/* --- memory of other drivers (Vulkan and so on), by file descriptor --- */

struct CUextMemory_st {
	struct object object;
	uint64_t bytes;
	int fd;
};

SIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *memory,
					   const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!memory || !from || from->size == 0 || from->type < 1 || from->type > 9)
		return CUDA_ERROR_INVALID_VALUE;
	bool is_fd = from->type == 1 || from->type == 9;

	if (!is_fd)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (from->handle.fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	struct CUextMemory_st *made = object_new(OBJECT_EXTERNAL, sizeof *made, context);

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->bytes = from->size;
	made->fd = from->handle.fd; /* ours from here on, as with the real driver */
	*memory = made;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
						    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *part)
{
	CUcontext context;

	SIM_ENTER_CONTEXT(context);
	if (!object_is(OBJECT_EXTERNAL, memory))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!address || !part || part->flags || part->size == 0 || part->offset > memory->bytes ||
	    part->size > memory->bytes - part->offset)
		return CUDA_ERROR_INVALID_VALUE;
	return foreign_open(part->size, context->device, context, address);
}

SIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	SIM_ENTER();
	if (!object_is(OBJECT_EXTERNAL, memory))
		return CUDA_ERROR_INVALID_HANDLE;
	close(memory->fd);
	object_delete(OBJECT_EXTERNAL, memory);
	return CUDA_SUCCESS;
}
