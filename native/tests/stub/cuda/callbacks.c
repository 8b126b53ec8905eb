/* Host functions in streams: one thread runs them in order, each when the device has got there. */
#include <pthread.h>
#include <stdlib.h>

#include "timeline.h"

struct callback {
	CUstream stream;
	CUdevice device;
	uint64_t position;
	CUhostFn function;
	void *data;
	struct callback *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static struct callback *first, **last = &first;
static int outstanding;
static bool is_running;

static void *run(void *argument)
{
	(void)argument;
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (!first)
			pthread_cond_wait(&added, &mutex);
		struct callback *callback = first;

		first = callback->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&mutex);
		timeline_wait(callback->device, callback->position);
		callback->function(callback->data);
		__atomic_sub_fetch(&callback->stream->callbacks, 1, __ATOMIC_ACQ_REL);
		free(callback);
		pthread_mutex_lock(&mutex);
		outstanding--;
		pthread_cond_broadcast(&done);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

CUresult callbacks_add(CUstream stream, CUhostFn function, void *data)
{
	struct callback *callback = malloc(sizeof *callback);
	CUresult cr = callback ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	pthread_t thread;

	if (!callback)
		return cr;
	*callback = (struct callback){.stream = stream,
				      .device = stream->object.context->device,
				      .position = stream->position,
				      .function = function,
				      .data = data};
	pthread_mutex_lock(&mutex);
	if (!is_running) {
		is_running = pthread_create(&thread, NULL, run, NULL) == 0;
		if (is_running)
			pthread_detach(thread);
	}
	if (is_running) {
		__atomic_add_fetch(&stream->callbacks, 1, __ATOMIC_ACQ_REL);
		outstanding++;
		*last = callback;
		last = &callback->next;
		pthread_cond_signal(&added);
	} else {
		free(callback);
		cr = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&mutex);
	return cr;
}

void callbacks_wait_all(void)
{
	pthread_mutex_lock(&mutex);
	while (outstanding)
		pthread_cond_wait(&done, &mutex);
	pthread_mutex_unlock(&mutex);
}
