/* See object.h. */
#include "object.h"

#include <pthread.h>
#include <stdlib.h>

#include "table.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct table objects[OBJECT_KINDS]; /* who waits goes through the pools, however many events there are */

bool object_register(struct object *object)
{
	pthread_mutex_lock(&mutex);
	bool is_added = table_add(&objects[object->kind], (uint64_t)(uintptr_t)object, object);

	pthread_mutex_unlock(&mutex);
	return is_added;
}

void *object_new(enum object_kind kind, size_t bytes, CUcontext context)
{
	struct object *object = calloc(1, bytes);

	if (!object)
		return NULL;
	object->kind = kind;
	object->context = context;
	if (object_register(object))
		return object;
	free(object);
	return NULL;
}

bool object_is(enum object_kind kind, const void *handle)
{
	pthread_mutex_lock(&mutex);
	bool is_kind = table_find(&objects[kind], (uint64_t)(uintptr_t)handle);

	pthread_mutex_unlock(&mutex);
	return is_kind;
}

bool object_forget(enum object_kind kind, void *handle)
{
	pthread_mutex_lock(&mutex);
	bool is_there = table_remove(&objects[kind], (uint64_t)(uintptr_t)handle);

	pthread_mutex_unlock(&mutex);
	return is_there;
}

bool object_delete(enum object_kind kind, void *handle)
{
	bool is_there = object_forget(kind, handle);

	if (is_there)
		free(handle);
	return is_there;
}

void *object_of_context(enum object_kind kind, CUcontext context)
{
	size_t at = 0;
	struct object *object;

	pthread_mutex_lock(&mutex);
	do {
		object = table_next(&objects[kind], &at);
	} while (object && object->context != context);
	pthread_mutex_unlock(&mutex);
	return object;
}

void object_each(enum object_kind kind, void (*call)(void *handle, void *argument), void *argument)
{
	size_t at = 0;
	struct object *object;

	pthread_mutex_lock(&mutex);
	while ((object = table_next(&objects[kind], &at)))
		call(object, argument);
	pthread_mutex_unlock(&mutex);
}
