/* Between profile.c (blocks, files) and profile_lines.c (one line): nobody else includes this. */
#pragma once

#include "profile.h"

/*
 * Take one `key=value` line into a card, or into what is said of the driver. Returns false when
 * the key is unknown (*ret_is_known says so) or the value is bad. `value` may be cut up.
 */
bool profile_set_card(struct card *card, const char *key, char *value, bool *ret_is_known);
bool profile_set_driver(struct profile *profile, const char *key, const char *value,
			bool *ret_is_known);

/* A decimal number, nothing before or after it, at most `max`. */
bool profile_read_number(const char *text, uint64_t max, uint64_t *ret);

/* Text that is not empty and fits, with its NUL. */
bool profile_read_text(const char *text, size_t capacity, char *ret);
