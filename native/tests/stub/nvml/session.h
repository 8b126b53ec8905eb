/*
 * One process's use of the simulated NVML: how often it is initialised, what it sees, its handles.
 *
 * Each call reads a copy of what it needs (`session_view`) and then works without a lock, so that
 * a call that blocks (events, a hanging card) blocks nobody else.
 * Threads: one mutex inside; every function here may be called from any thread.
 */
#pragma once

#include "nvml_subset.h"
#include "profile.h"
#include "state.h"

/* What a handle points to, as the file has it now. */
struct view {
	struct card card;
	struct instance instance; /* only where is_instance */
	bool is_instance;
	unsigned int index; /* among the visible cards, or among the card's instances */
};

nvmlReturn_t session_begin(void);
nvmlReturn_t session_end(void);

/* The visible cards of now. Fails when not initialised or the driver as a whole fails. */
nvmlReturn_t session_profile(struct profile *ret_profile);

/*
 * What the handle points to. A card that left the file is lost, an instance that did is invalid;
 * a card that is lost or broken gives its error for itself and for its instances.
 */
nvmlReturn_t session_view(nvmlDevice_t device, struct view *ret_view);

/* The error that a card gives on every call, or success. */
nvmlReturn_t session_card_error(const struct card *card);

/* The one handle for this uuid; it stays valid for the life of the process. NULL when full. */
nvmlDevice_t session_handle(const char *uuid);

/* The shared account of what processes hold, or NULL when there is none (yet). */
struct state *session_state(void);

/* Copy text to a caller's buffer, or say that it is too small. */
nvmlReturn_t session_give_text(const char *text, char *to, unsigned int capacity);
