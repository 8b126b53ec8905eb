/*
 * What memory nodes allocate. Addresses are given when the node is made; memory is taken of the
 * device when a launch gets to the node, and kept for other nodes until it is trimmed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "graph.h"

enum { MEM_USED = 0, MEM_USED_HIGH = 1, MEM_RESERVED = 2, MEM_RESERVED_HIGH = 3 };

struct graph_block {
	struct span span;
	uint64_t bytes; /* as asked for */
	int users;      /* nodes in graphs and their copies */
	bool is_backed;
};

static uint64_t figures[SIM_DEVICES_MAX][4]; /* under space_lock */

static void raise(uint64_t *high, uint64_t now)
{
	if (now > *high)
		*high = now;
}

struct graph_block *graph_block_new(CUdevice device, uint64_t bytes, CUdeviceptr *ret_address)
{
	uint64_t rounded = (bytes + HEAP_GRAIN - 1) / HEAP_GRAIN * HEAP_GRAIN;
	struct graph_block *block = calloc(1, sizeof *block);
	void *memory = space_map(rounded, 4096, PROT_READ | PROT_WRITE, 0);

	if (!block || !memory) {
		free(block);
		if (memory)
			munmap(memory, rounded);
		return NULL;
	}
	block->span = (struct span){.address = (uint64_t)(uintptr_t)memory,
				    .bytes = rounded,
				    .kind = SPAN_GRAPH,
				    .device = device,
				    .owner = block};
	block->bytes = bytes;
	block->users = 1;
	space_lock();
	span_add(&block->span);
	space_unlock();
	*ret_address = block->span.address;
	return block;
}

struct graph_block *graph_block_share(struct graph_block *block)
{
	space_lock();
	block->users++;
	space_unlock();
	return block;
}

/* Called under space_lock. */
static void unback(struct graph_block *block)
{
	if (block->is_backed)
		figures[block->span.device][MEM_USED] -= block->span.bytes;
	block->is_backed = false;
}

void graph_block_drop(struct graph_block *block)
{
	space_lock();
	bool is_last = --block->users == 0;

	if (is_last) {
		unback(block);
		span_remove(&block->span);
	}
	space_unlock();
	if (!is_last)
		return;
	munmap((void *)(uintptr_t)block->span.address, block->span.bytes);
	free(block);
}

/* Called under space_lock. */
static CUresult have_idle(CUdevice device, uint64_t bytes)
{
	uint64_t *of = figures[device];
	uint64_t idle = of[MEM_RESERVED] - of[MEM_USED];
	uint64_t more = bytes > idle ? bytes - idle : 0;
	CUresult cr = heap_take_of_device(device, more);

	if (cr == CUDA_SUCCESS)
		of[MEM_RESERVED] += more;
	raise(&of[MEM_RESERVED_HIGH], of[MEM_RESERVED]);
	return cr;
}

CUresult graph_block_reserve(struct graph_block *block)
{
	space_lock();
	CUresult cr = block->is_backed ? CUDA_SUCCESS :
					 have_idle(block->span.device, block->span.bytes);

	space_unlock();
	return cr;
}

/* A launch gets to the node. What the last launch left is an error, unless it may be reused. */
CUresult graph_block_back(struct graph_block *block, bool is_reused)
{
	uint64_t *of = figures[block->span.device];
	CUresult cr = CUDA_SUCCESS;

	space_lock();
	if (block->is_backed && !is_reused) {
		cr = CUDA_ERROR_INVALID_VALUE;
	} else if (!block->is_backed) {
		cr = have_idle(block->span.device, block->span.bytes);
		if (cr == CUDA_SUCCESS) {
			of[MEM_USED] += block->span.bytes;
			raise(&of[MEM_USED_HIGH], of[MEM_USED]);
			block->is_backed = true;
		}
	}
	space_unlock();
	return cr;
}

bool graph_block_is_ours(CUdeviceptr address)
{
	space_lock();
	const struct span *span = span_at(address);
	bool is_ours = span && span->kind == SPAN_GRAPH && span->address == address;

	space_unlock();
	return is_ours;
}

CUresult graph_free_outside(CUdeviceptr address)
{
	CUresult cr = CUDA_ERROR_INVALID_VALUE;

	space_lock();
	const struct span *span = span_at(address);

	if (span && span->kind == SPAN_GRAPH && span->address == address) {
		struct graph_block *block = span->owner;

		cr = block->is_backed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		unback(block);
	}
	space_unlock();
	return cr;
}

SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	space_lock();
	uint64_t *of = figures[device];

	sim_give_back(sim_device(device), of[MEM_RESERVED] - of[MEM_USED]);
	of[MEM_RESERVED] = of[MEM_USED];
	space_unlock();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || attribute < MEM_USED || attribute > MEM_RESERVED_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	memcpy(value, &figures[device][attribute], sizeof(cuuint64_t));
	space_unlock();
	return CUDA_SUCCESS;
}

/* High-water marks can only be set to zero, which means: to what is current. */
SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
	cuuint64_t wanted;

	SIM_ENTER();
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || (attribute != MEM_USED_HIGH && attribute != MEM_RESERVED_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wanted, value, sizeof wanted);
	if (wanted != 0)
		return CUDA_ERROR_INVALID_VALUE;
	space_lock();
	figures[device][attribute] = figures[device][attribute - 1];
	space_unlock();
	return CUDA_SUCCESS;
}
