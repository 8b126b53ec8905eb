/*
 * What programs hold handles of. A handle is the address of a struct that begins with a struct
 * object; whether a handle is good is looked up, never read from where it points.
 *
 * Threads: one lock inside; an object that a program destroys while it uses it elsewhere is that
 * program's mistake, as with the real driver.
 */
#pragma once

#include "sim.h"

enum object_kind {
	OBJECT_CONTEXT = 1,
	OBJECT_GREEN,
	OBJECT_POOL,
	OBJECT_ALLOCATION, /* of cuMemCreate */
	OBJECT_MULTICAST,
	OBJECT_ARRAY,
	OBJECT_MIPMAP,
	OBJECT_EXTERNAL,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_MODULE,
	OBJECT_LIBRARY,
	OBJECT_FUNCTION,
	OBJECT_KERNEL,
	OBJECT_LINK,
	OBJECT_TEXTURE,
	OBJECT_GRAPH,
	OBJECT_NODE,
	OBJECT_EXEC,
	OBJECT_USER,
	OBJECT_KINDS,
};

struct object {
	enum object_kind kind;
	CUcontext context; /* that it goes with; NULL: none */
};

/* Zeroed, `bytes` big, registered; NULL when there is no memory. */
void *object_new(enum object_kind kind, size_t bytes, CUcontext context);

/* For a struct that is not from object_new. */
bool object_register(struct object *object);

bool object_is(enum object_kind kind, const void *handle);

/* Forget and free; false if it was not there. */
bool object_delete(enum object_kind kind, void *handle);

/* The same, but whoever still needs it frees it. */
bool object_forget(enum object_kind kind, void *handle);

/* One that goes with this context, of the kind; NULL when there is none. */
void *object_of_context(enum object_kind kind, CUcontext context);

/* Call for each of a kind, under the lock. */
void object_each(enum object_kind kind, void (*call)(void *handle, void *argument), void *argument);
