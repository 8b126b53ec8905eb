/* See session.h. */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HANDLES 512

struct handle {
	char uuid[PROFILE_TEXT];
};

static struct {
	pthread_mutex_t mutex;
	unsigned int begin_count;
	struct profile_file file;
	struct profile all, visible;
	struct handle handles[MAX_HANDLES];
	size_t handle_count;
	struct state state;
	char state_path[4096]; /* of the state that is open or unusable */
	enum { STATE_UNTRIED, STATE_OPEN, STATE_UNUSABLE } state_is;
} session = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static nvmlReturn_t driver_error(void)
{
	switch (session.all.driver_fail) {
	case DRIVER_OK:
		return NVML_SUCCESS;
	case DRIVER_NOT_LOADED:
		return NVML_ERROR_DRIVER_NOT_LOADED;
	case DRIVER_MISMATCH:
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

/* Called with the mutex held. */
static int refresh(void)
{
	int r = profile_refresh(profile_path(), &session.file, &session.all);

	if (r > 0) {
		session.visible = session.all;
		profile_filter(&session.visible, getenv(PROFILE_VISIBLE_ENV));
	}
	return r;
}

/* Called with the mutex held. */
static nvmlReturn_t ready(void)
{
	if (session.begin_count == 0)
		return NVML_ERROR_UNINITIALIZED;
	refresh(); /* a file that is gone or being mended leaves things as they were */
	return driver_error();
}

nvmlReturn_t session_begin(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&session.mutex);
	if (session.begin_count == 0) {
		session.file = (struct profile_file){0}; /* the environment may name another by now */
		int r = refresh();

		if (r == -ENOENT)
			result = NVML_ERROR_DRIVER_NOT_LOADED;
		else if (r < 0)
			result = NVML_ERROR_UNKNOWN;
	}
	if (result == NVML_SUCCESS)
		result = driver_error();
	if (result == NVML_SUCCESS)
		session.begin_count++;
	pthread_mutex_unlock(&session.mutex);
	return result;
}

nvmlReturn_t session_end(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&session.mutex);
	if (session.begin_count == 0)
		result = NVML_ERROR_UNINITIALIZED;
	else
		session.begin_count--;
	pthread_mutex_unlock(&session.mutex);
	return result;
}

nvmlReturn_t session_profile(struct profile *ret_profile)
{
	pthread_mutex_lock(&session.mutex);
	nvmlReturn_t result = ready();

	if (result == NVML_SUCCESS)
		*ret_profile = session.visible;
	pthread_mutex_unlock(&session.mutex);
	return result;
}

nvmlReturn_t session_card_error(const struct card *card)
{
	if (card->fails & FAIL_LOST)
		return NVML_ERROR_GPU_IS_LOST;
	if (card->fails & FAIL_RESET_REQUIRED)
		return NVML_ERROR_RESET_REQUIRED;
	if (card->fails & FAIL_UNKNOWN)
		return NVML_ERROR_UNKNOWN;
	return NVML_SUCCESS;
}

/* Called with the mutex held. */
static nvmlReturn_t find_view(const char *uuid, struct view *ret_view)
{
	const struct instance *instance = NULL;
	const struct card *card = profile_find(&session.visible, uuid, &instance);

	if (!card)
		return strncmp(uuid, "MIG-", 4) == 0 ? NVML_ERROR_INVALID_ARGUMENT
						      : NVML_ERROR_GPU_IS_LOST;
	nvmlReturn_t result = session_card_error(card);

	if (result != NVML_SUCCESS)
		return result;
	ret_view->card = *card;
	ret_view->is_instance = instance != NULL;
	ret_view->index = (unsigned int)(card - session.visible.cards);
	if (instance) {
		ret_view->instance = *instance;
		ret_view->index = (unsigned int)(instance - card->instances);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t session_view(nvmlDevice_t device, struct view *ret_view)
{
	pthread_mutex_lock(&session.mutex);
	nvmlReturn_t result = ready();

	if (result == NVML_SUCCESS &&
	    (device < session.handles || device >= session.handles + session.handle_count))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		result = find_view(device->uuid, ret_view);
	pthread_mutex_unlock(&session.mutex);
	return result;
}

nvmlDevice_t session_handle(const char *uuid)
{
	nvmlDevice_t found = NULL;

	pthread_mutex_lock(&session.mutex);
	for (size_t i = 0; i < session.handle_count && !found; i++)
		if (strcmp(session.handles[i].uuid, uuid) == 0)
			found = &session.handles[i];
	if (!found && session.handle_count < MAX_HANDLES) {
		found = &session.handles[session.handle_count++];
		strncpy(found->uuid, uuid, sizeof found->uuid - 1);
	}
	pthread_mutex_unlock(&session.mutex);
	return found;
}

struct state *session_state(void)
{
	const char *path = state_path(NULL);

	pthread_mutex_lock(&session.mutex);
	if (session.state_is != STATE_UNTRIED && strcmp(session.state_path, path) != 0)
		session.state_is = STATE_UNTRIED; /* the old one stays open: see state.h, rule 1 */
	if (session.state_is == STATE_UNTRIED) {
		int r = state_open(path, false, &session.state);

		if (r == 0)
			session.state_is = STATE_OPEN;
		else if (r != -ENOENT) /* absent: it may come yet */
			session.state_is = STATE_UNUSABLE;
		strncpy(session.state_path, path, sizeof session.state_path - 1);
	}
	struct state *state = session.state_is == STATE_OPEN ? &session.state : NULL;

	pthread_mutex_unlock(&session.mutex);
	return state;
}

nvmlReturn_t session_give_text(const char *text, char *to, unsigned int capacity)
{
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= capacity)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}
