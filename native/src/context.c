#include "context.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "real.h"

#define ORDINALS_MAX HAMID_DEVICES_MAX
#define GONE_KEPT 16u

_Atomic bool context_has_several;
_Atomic uint64_t launch_capped;
static struct pages_device devices[ORDINALS_MAX];
static _Atomic bool is_known[ORDINALS_MAX];

static _Atomic uint64_t contexts_gone = 1; /* how often; the thread's memory is of one count */
static CUcontext last_gone[GONE_KEPT]; /* the last of them, by count; read and written while it is taken */
static atomic_flag last_gone_is_taken = ATOMIC_FLAG_INIT;
static __thread __attribute__((tls_model("initial-exec"))) struct {
	uint64_t contexts_gone;
	struct whereabouts here;
} last;

CUresult context_uuid(CUdevice ordinal, char ret_uuid[HAMID_UUID_BYTES])
{
	CUuuid uuid;
	CUresult cr;
	/* The first version names the card even where the device is an instance of it (MIG). */
	if (real.cuDeviceGetUuid_v2)
		cr = real.cuDeviceGetUuid_v2(&uuid, ordinal);
	else if (real.cuDeviceGetUuid)
		cr = real.cuDeviceGetUuid(&uuid, ordinal);
	else
		cr = CUDA_ERROR_NOT_SUPPORTED; /* drivers before 9.2 */
	if (cr != CUDA_SUCCESS)
		return cr;

	const unsigned char *b = (const unsigned char *)uuid.bytes;
	snprintf(ret_uuid, HAMID_UUID_BYTES,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
	return CUDA_SUCCESS;
}

static void note_several(CUdevice ordinal)
{
	for (CUdevice other = 0; other < ORDINALS_MAX; other++)
		if (other != ordinal && atomic_load(&is_known[other]))
			atomic_store(&context_has_several, true);
}

CUresult context_device(CUdevice ordinal, struct pages_device **ret_device)
{
	if (ordinal < 0 || ordinal >= ORDINALS_MAX)
		return CUDA_ERROR_INVALID_DEVICE;
	struct pages_device *device = &devices[ordinal];
	if (!atomic_load_explicit(&is_known[ordinal], memory_order_acquire)) {
		char uuid[HAMID_UUID_BYTES] = "";
		CUresult cr = context_uuid(ordinal, uuid);
		if (cr != CUDA_SUCCESS)
			return cr;
		/* Threads that meet here write the same: none waits for another, which may be gone after a fork. */
		for (size_t i = 0; i < sizeof uuid; i++)
			__atomic_store_n(&device->uuid[i], uuid[i], __ATOMIC_RELAXED);
		note_several(ordinal);
		atomic_store(&is_known[ordinal], true);
		note_several(ordinal); /* of two that begin at once, one sees the other */
		if (atomic_load(&context_has_several))
			atomic_fetch_or(&launch_capped, 1ull << ordinal);
	}
	*ret_device = device;
	return CUDA_SUCCESS;
}

CUdevice context_ordinal(const struct pages_device *device)
{
	return (CUdevice)(device - devices);
}

CUdevice context_ordinal_of_location(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id;
	case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN: /* since 13.5; of most devices it is all of it */
		return location->id & 0xff;
	default:
		return -1;
	}
}

CUresult context_of_location(const CUmemLocation *location, struct pages_device **ret_device)
{
	return context_device(context_ordinal_of_location(location), ret_device);
}

CUresult context_here(struct whereabouts *ret_here)
{
	CUcontext current = NULL;
	if (!real.cuCtxGetCurrent || !real.cuCtxGetDevice)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuCtxGetCurrent(&current);
	if (cr != CUDA_SUCCESS)
		return cr;
	const uint64_t gone = atomic_load_explicit(&contexts_gone, memory_order_acquire);
	if (!current || last.here.context != current || last.contexts_gone != gone) {
		struct whereabouts here = {.context = current};
		cr = real.cuCtxGetDevice(&here.ordinal); /* says itself what is wrong with none */
		if (cr == CUDA_SUCCESS)
			cr = context_device(here.ordinal, &here.device);
		if (cr != CUDA_SUCCESS)
			return cr;
		last.here = here;
		last.contexts_gone = gone;
	}
	*ret_here = last.here;
	return CUDA_SUCCESS;
}

CUresult context_of_stream(CUstream stream, struct whereabouts *ret_there)
{
	CUresult cr = context_here(ret_there);
	CUcontext owner;
	/* NULL, legacy (1) and per thread (2) are whatever is current. */
	if ((uintptr_t)stream <= 2 || !real.cuStreamGetCtx ||
	    real.cuStreamGetCtx(stream, &owner) != CUDA_SUCCESS || !owner ||
	    (cr == CUDA_SUCCESS && owner == ret_there->context))
		return cr;
	if (real.cuCtxPushCurrent_v2(owner) != CUDA_SUCCESS)
		return cr;
	CUresult theirs = context_here(ret_there);
	real.cuCtxPopCurrent_v2(&owner);
	return theirs;
}

static void after_fork_in_child(void)
{
	atomic_flag_clear(&last_gone_is_taken);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void take_last_gone(void)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	pthread_once(&forks_watched, watch_forks);
	/* Another thread looks at a few pointers at this moment. */
	while (atomic_flag_test_and_set_explicit(&last_gone_is_taken, memory_order_acquire))
		sched_yield();
}

static void leave_last_gone(void)
{
	atomic_flag_clear_explicit(&last_gone_is_taken, memory_order_release);
}

void context_forget(CUcontext context)
{
	take_last_gone();
	const uint64_t count = atomic_load(&contexts_gone);
	last_gone[count % GONE_KEPT] = context;
	atomic_store(&contexts_gone, count + 1);
	leave_last_gone();
}

uint64_t context_gone_count(void)
{
	return atomic_load_explicit(&contexts_gone, memory_order_relaxed);
}

bool context_is_gone(CUcontext context, uint64_t since)
{
	take_last_gone();
	const uint64_t count = atomic_load(&contexts_gone);
	bool is_gone = count - since > GONE_KEPT;
	for (uint64_t i = since; i < count && !is_gone; i++)
		is_gone = !last_gone[i % GONE_KEPT] || last_gone[i % GONE_KEPT] == context;
	leave_last_gone();
	return is_gone;
}
