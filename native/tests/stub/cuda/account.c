/* What this process holds of each device: in the account all simulated CUDA processes share. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

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

struct state *sim_account(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_account);
	return is_account_open ? &account : NULL;
}

/* Index among this process's devices, for the private account. */
static uint64_t *private_of(const struct sim_device *device)
{
	return &private_used[device - sim_device(0)];
}

uint64_t sim_used_bytes(const struct sim_device *device)
{
	struct state *shared = sim_account();

	if (shared)
		return state_used_bytes(shared, device->uuid);
	return __atomic_load_n(private_of(device), __ATOMIC_SEQ_CST);
}

CUresult sim_take(const struct sim_device *device, uint64_t bytes)
{
	struct state *shared = sim_account();

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (shared) {
		int r = state_reserve(shared, device->uuid, bytes, device->free_bytes_at_most);

		return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	uint64_t *used = private_of(device);
	uint64_t before = __atomic_fetch_add(used, bytes, __ATOMIC_SEQ_CST);

	if (bytes <= device->free_bytes_at_most && before <= device->free_bytes_at_most - bytes)
		return CUDA_SUCCESS;
	__atomic_sub_fetch(used, bytes, __ATOMIC_SEQ_CST);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_give_back(const struct sim_device *device, uint64_t bytes)
{
	struct state *shared = sim_account();

	if (bytes == 0)
		return;
	if (shared)
		state_release(shared, device->uuid, bytes);
	else
		__atomic_sub_fetch(private_of(device), bytes, __ATOMIC_SEQ_CST);
}
