/*
 * Device memory: address space of the host that is committed only where it is written, and counted
 * in the account that all simulated CUDA processes of the machine share.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* where the first version's addresses cannot be had, they are refused */
#endif

struct block {
	uint64_t address;
	uint64_t bytes;
	CUcontext context;
	CUdevice device;
	struct block *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static struct state account;
static bool is_account_open;
static uint64_t private_used[SIM_DEVICES_MAX]; /* where there is no shared account */

static void open_account(void)
{
	bool is_named;
	const char *path = state_path(&is_named);
	int r = state_open(path, is_named, &account);
	is_account_open = r == 0;
	if (r < 0 && is_named)
		fprintf(stderr, "libcuda (simulated): %s: %s: this process counts alone\n", path,
			strerror(-r));
}

static bool has_account(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, open_account);
	return is_account_open;
}

/* Index among this process's devices, for the private account. */
static uint64_t *private_of(const struct sim_device *device)
{
	return &private_used[device - sim_device(0)];
}

uint64_t sim_used_bytes(const struct sim_device *device)
{
	if (has_account())
		return state_used_bytes(&account, device->uuid);
	return __atomic_load_n(private_of(device), __ATOMIC_SEQ_CST);
}

CUresult sim_take(const struct sim_device *device, uint64_t bytes)
{
	if (has_account()) {
		int r = state_reserve(&account, device->uuid, bytes, device->free_bytes_at_most);
		return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	uint64_t *used = private_of(device);
	if (__atomic_add_fetch(used, bytes, __ATOMIC_SEQ_CST) <= device->free_bytes_at_most)
		return CUDA_SUCCESS;
	__atomic_sub_fetch(used, bytes, __ATOMIC_SEQ_CST);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_give_back(const struct sim_device *device, uint64_t bytes)
{
	if (has_account())
		state_release(&account, device->uuid, bytes);
	else
		__atomic_sub_fetch(private_of(device), bytes, __ATOMIC_SEQ_CST);
}

static CUresult take_block(uint64_t bytes, int map_flags, uint64_t *ret_address)
{
	CUdevice ordinal;
	CUcontext context;
	CUresult cr = sim_current_device(&ordinal);
	if (cr == CUDA_SUCCESS)
		cr = cuCtxGetCurrent(&context);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	const struct sim_device *device = sim_device(ordinal);
	cr = sim_take(device, bytes);
	if (cr != CUDA_SUCCESS)
		return cr;

	struct block *block = malloc(sizeof *block);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | map_flags, -1, 0);
	if (!block || memory == MAP_FAILED) {
		free(block);
		sim_give_back(device, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*block = (struct block){
		.address = (uint64_t)(uintptr_t)memory,
		.bytes = bytes,
		.context = context,
		.device = ordinal,
	};
	pthread_mutex_lock(&mutex);
	block->next = blocks;
	blocks = block;
	pthread_mutex_unlock(&mutex);
	*ret_address = block->address;
	return CUDA_SUCCESS;
}

static void drop(struct block *block)
{
	munmap((void *)(uintptr_t)block->address, block->bytes);
	sim_give_back(sim_device(block->device), block->bytes);
	free(block);
}

static CUresult free_block(uint64_t address)
{
	CUresult cr = sim_ready();
	if (cr != CUDA_SUCCESS || address == 0)
		return cr;
	struct block *found = NULL;
	pthread_mutex_lock(&mutex);
	for (struct block **at = &blocks; *at; at = &(*at)->next)
		if ((*at)->address == address) {
			found = *at;
			*at = found->next;
			break;
		}
	pthread_mutex_unlock(&mutex);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	drop(found);
	return CUDA_SUCCESS;
}

void sim_free_context(CUcontext context)
{
	struct block *orphans = NULL;
	pthread_mutex_lock(&mutex);
	for (struct block **at = &blocks; *at;) {
		struct block *block = *at;
		if (block->context != context) {
			at = &block->next;
			continue;
		}
		*at = block->next;
		block->next = orphans;
		orphans = block;
	}
	pthread_mutex_unlock(&mutex);
	while (orphans) {
		struct block *next = orphans->next;
		drop(orphans);
		orphans = next;
	}
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	CUresult cr = sim_injected(__func__);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t taken;
	cr = take_block(bytes, 0, &taken);
	if (cr == CUDA_SUCCESS)
		*address = taken;
	return cr;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes)
{
	CUresult cr = sim_injected(__func__);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!MAP_32BIT)
		return CUDA_ERROR_NOT_SUPPORTED;
	uint64_t taken;
	cr = take_block(bytes, MAP_32BIT, &taken);
	if (cr == CUDA_SUCCESS)
		*address = (CUdeviceptr_v1)taken;
	return cr;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	CUresult cr = sim_injected(__func__);
	return cr == CUDA_SUCCESS ? free_block(address) : cr;
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
	CUresult cr = sim_injected(__func__);
	return cr == CUDA_SUCCESS ? free_block(address) : cr;
}

/* Either pointer may be NULL: the real driver takes that. */
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	CUdevice ordinal;
	CUresult cr = sim_injected(__func__);
	if (cr == CUDA_SUCCESS)
		cr = sim_current_device(&ordinal);
	if (cr != CUDA_SUCCESS)
		return cr;
	const struct sim_device *device = sim_device(ordinal);
	uint64_t used = sim_used_bytes(device);
	if (free_bytes)
		*free_bytes = device->free_bytes_at_most > used ? device->free_bytes_at_most - used : 0;
	if (total_bytes)
		*total_bytes = device->total_bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	size_t free_now, total;
	CUresult cr = cuMemGetInfo_v2(&free_now, &total);
	if (cr != CUDA_SUCCESS)
		return cr;
	if (free_bytes)
		*free_bytes = free_now > UINT32_MAX ? UINT32_MAX : (unsigned int)free_now;
	if (total_bytes)
		*total_bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return CUDA_SUCCESS;
}

/* Does a block hold this whole range? */
static bool is_device_range(uint64_t address, uint64_t bytes)
{
	bool is_inside = false;
	pthread_mutex_lock(&mutex);
	for (const struct block *block = blocks; block && !is_inside; block = block->next)
		is_inside = address >= block->address && bytes <= block->bytes &&
			    address - block->address <= block->bytes - bytes;
	pthread_mutex_unlock(&mutex);
	return is_inside;
}

static CUresult copy(void *to, const void *from, size_t bytes)
{
	CUdevice device;
	CUresult cr = sim_current_device(&device);
	if (cr == CUDA_SUCCESS)
		memmove(to, from, bytes);
	return cr;
}

static void *host(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy(host(to), host(from), bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return is_device_range(to, bytes) ? copy(host(to), from, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return is_device_range(from, bytes) ? copy(to, host(from), bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	bool are_inside = is_device_range(to, bytes) && is_device_range(from, bytes);
	return are_inside ? copy(host(to), host(from), bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	if (!is_device_range(to, count))
		return CUDA_ERROR_INVALID_VALUE;
	memset(host(to), value, count);
	return CUDA_SUCCESS;
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	if (count > SIZE_MAX / sizeof value || !is_device_range(to, count * sizeof value))
		return CUDA_ERROR_INVALID_VALUE;
	unsigned int *words = host(to);
	for (size_t i = 0; i < count; i++)
		words[i] = value;
	return CUDA_SUCCESS;
}
