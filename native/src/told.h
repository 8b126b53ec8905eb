/*
 * The figures a tenant is told of a device: the slice, never more than what physically is, unless the
 * device is oversubscribed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct told {
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t used_bytes;
	bool is_slice; /* else these are the driver's own figures */
};

/*
 * From the physical total and free, and what the device with this UUID is limited to. 0 and
 * *ret_told; -ENOENT: the driver's own figures are the right ones (outside, or no limit); -EPERM:
 * the pages cannot be trusted.
 */
int told_of(const char *uuid, uint64_t total_bytes, uint64_t free_bytes, struct told *ret_told);
