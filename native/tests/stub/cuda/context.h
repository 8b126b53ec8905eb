/*
 * Contexts: what a thread works in, and what goes with it when it is destroyed.
 *
 * Contexts are never freed, so a thread that still has a destroyed one current can be told so.
 */
#pragma once

#include "heap.h"
#include "object.h"

#define CONTEXT_LIMITS 11

struct CUctx_st {
	struct object object;
	CUdevice device;
	bool is_primary;
	bool is_alive; /* a primary context: retained, or made again by a reset */
	int users;     /* of a primary context */
	unsigned int flags;
	unsigned long long id;
	uint64_t cost_bytes; /* held of the device for the context itself */
	struct heap heap;    /* under space_lock */
	size_t limits[CONTEXT_LIMITS];
	uint32_t peers; /* bits of the devices whose memory it may use */
	int cache_config, shared_config;
	CUstream default_stream; /* made when first used */
	CUcontext part_of;       /* of a green context: the primary one, in which all is done */
};

/* The calling thread's context, alive; CUDA_ERROR_INVALID_CONTEXT when there is none. */
CUresult context_current(CUcontext *ret_context);

/* NULL means the calling thread's. */
CUresult context_or_current(CUcontext context, CUcontext *ret_context);

/* The device's primary context, whether anybody has retained it or not. */
CUcontext context_primary(CUdevice device);

/* For streams, modules and the like: free what goes with a context. Defined where they are. */
void stream_drop_context(CUcontext context);
void module_drop_context(CUcontext context);
void array_drop_context(CUcontext context);
void managed_drop_context(CUcontext context);
void storage_drop_context(CUcontext context);
