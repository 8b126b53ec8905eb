/*
 * The control page's bytes as a value. Pure: no file, no clock, no environment.
 *
 * Strict: a page that is not in every respect what this ABI version writes is refused as a whole,
 * since half a limit is no limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hamid_pages.h"

struct device_limit {
	char uuid[HAMID_UUID_BYTES];
	uint64_t memory_limit_bytes; /* HAMID_UNLIMITED: no limit */
	uint32_t core_percent;
	uint32_t weight;
	uint32_t index; /* in the page */
	uint64_t context_bytes;     /* for each context */
	uint64_t fixed_limit_bytes; /* at most of other than managed memory; never over the limit */
	uint64_t uncounted_bytes;   /* not of this page, but of the live one; 0 as parsed */
};

struct limits {
	uint64_t generation;
	uint32_t priority;
	uint32_t mode;
	uint32_t flags;
	uint32_t device_count;
	struct device_limit devices[HAMID_DEVICES_MAX];
};

/*
 * 0; -EPROTO: written for another ABI version; -EBADMSG: damaged. On failure *ret_why is a static
 * text that says what is wrong.
 */
int limits_parse(const void *page, size_t length, struct limits *ret_limits, const char **ret_why);

/*
 * The device with this UUID, or NULL. Only what follows the first '-' is compared: the CUDA
 * driver gives sixteen bytes and does not say whether they are of a "GPU-" or a "MIG-".
 */
const struct device_limit *limits_find(const struct limits *limits, const char *uuid);
