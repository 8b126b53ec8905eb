/*
 * The private tables that CUDA runtimes before 11.2 ask for. Which they are and what their slots do is known from
 * public notes and from watching what clients ask. All others are refused; the one by which newer runtimes
 * authenticate the driver too: nothing here answers a check.
 *
 * A table begins with its size in bytes, but for the one of context-local storage.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "module.h"

typedef void (*storage_end_fn)(CUcontext context, void *key, void *value);

struct entry {
	CUcontext context;
	void *key, *value;
	storage_end_fn end;
	struct entry *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

static CUresult nothing(void)
{
	return CUDA_SUCCESS;
}

/* --- the runtime's own interface: primary contexts, and code that programs registered --- */

static CUresult primary_context(CUcontext *context, CUdevice device)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = context_primary(device);
	return CUDA_SUCCESS;
}

static CUresult load_registered(CUmodule *module, const void *wrapper)
{
	CUcontext context;
	CUresult cr = context_current(&context);

	if (cr != CUDA_SUCCESS)
		return cr;
	return module && wrapper ? module_new(context, image_bytes(wrapper), module)
				 : CUDA_ERROR_INVALID_VALUE;
}

/* --- buffers that tools fill --- */

static void tool_pointers(void **buffer, size_t *count)
{
	static void *pointers[1024];

	*buffer = pointers;
	*count = sizeof pointers / sizeof *pointers;
}

static void tool_flags(void **buffer, size_t *count)
{
	static char flags[14];

	*buffer = flags;
	*count = sizeof flags;
}

/* --- what the runtime keeps for each context --- */

/* Called with the mutex held. */
static struct entry **find(CUcontext context, const void *key)
{
	struct entry **at = &entries;

	while (*at && ((*at)->context != context || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

static CUresult storage_put(CUcontext context, void *key, void *value, storage_end_fn end)
{
	CUresult cr = context_or_current(context, &context);
	struct entry *fresh = malloc(sizeof *fresh);

	if (cr != CUDA_SUCCESS || !fresh) {
		free(fresh);
		return cr != CUDA_SUCCESS ? cr : CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&mutex);
	struct entry **at = find(context, key);

	if (*at) {
		free(fresh);
		fresh = *at;
	} else {
		fresh->next = entries;
		entries = fresh;
	}
	fresh->context = context;
	fresh->key = key;
	fresh->value = value;
	fresh->end = end;
	pthread_mutex_unlock(&mutex);
	return CUDA_SUCCESS;
}

static CUresult storage_delete(CUcontext context, void *key)
{
	CUresult cr = context_or_current(context, &context);

	if (cr != CUDA_SUCCESS)
		return cr;
	pthread_mutex_lock(&mutex);
	struct entry **at = find(context, key);
	struct entry *found = *at;

	if (found)
		*at = found->next;
	pthread_mutex_unlock(&mutex);
	free(found);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult storage_get(void **value, CUcontext context, void *key)
{
	CUresult cr = context_or_current(context, &context);

	if (cr != CUDA_SUCCESS)
		return cr;
	pthread_mutex_lock(&mutex);
	struct entry *found = *find(context, key);

	if (found)
		*value = found->value;
	pthread_mutex_unlock(&mutex);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void storage_drop_context(CUcontext context)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		struct entry **at = &entries;

		while (*at && (*at)->context != context)
			at = &(*at)->next;
		struct entry *found = *at;

		if (found)
			*at = found->next;
		pthread_mutex_unlock(&mutex);
		if (!found)
			return;
		if (found->end)
			found->end(context, found->key, found->value);
		free(found);
	}
}

/* --- the tables --- */

#define SLOTS 16

enum { RUNTIME, TOOLS, TOOLS_STORAGE, STORAGE, TABLES };

static const void *tables[TABLES][SLOTS];

static const unsigned char uuids[TABLES][16] = {
	[RUNTIME] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12,
		     0xfd, 0x9d, 0xf9},
	[TOOLS] = {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c,
		   0x0a, 0x66},
	[TOOLS_STORAGE] = {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a,
			   0x3a, 0xec, 0xdc},
	[STORAGE] = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55,
		     0xd8, 0x95, 0x93},
};

static void fill(void)
{
	for (size_t table = 0; table < TABLES; table++) {
		tables[table][0] = (const void *)sizeof tables[table];
		for (size_t slot = 1; slot < SLOTS; slot++)
			tables[table][slot] = (const void *)nothing;
	}
	tables[RUNTIME][2] = (const void *)primary_context;
	tables[RUNTIME][6] = (const void *)load_registered;
	tables[TOOLS][2] = (const void *)tool_pointers;
	tables[TOOLS][6] = (const void *)tool_flags;
	tables[STORAGE][0] = (const void *)storage_put;
	tables[STORAGE][1] = (const void *)storage_delete;
	tables[STORAGE][2] = (const void *)storage_get;
}

SIM_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *uuid)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!table || !uuid)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&once, fill);
	for (size_t i = 0; i < TABLES; i++)
		if (memcmp(uuids[i], uuid->bytes, sizeof uuids[i]) == 0) {
			*table = tables[i];
			return CUDA_SUCCESS;
		}
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
