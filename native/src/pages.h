/*
 * The two pages as this process uses them. pages_control.c reads what the host decided;
 * pages_usage.c keeps the books with the container's other processes.
 *
 * Terms: as in hamid_pages.h. A process outside is one that runs where the host has put no limits
 * directory: nothing is limited and nothing counted there.
 *
 * Threads: every function may be called from any thread; see locks.h. None calls the driver.
 */
#pragma once

#include <stdint.h>

#include "hamid_pages.h"
#include "limits.h"

/*
 * What the host allows of the device with this UUID (any prefix, see limits_find). A change on the
 * host is seen by the next call. A device that the page does not name: limit 0, and the UUID as
 * given. Returns 0; -ENOENT: outside; -EPERM: the page is missing or cannot be trusted (said once).
 * Fails closed.
 */
int pages_limit(const char *uuid, struct device_limit *ret_limit);

/* Where the pages are; fixed, except in the library built for tests. */
const char *pages_limits_dir(void);
const char *pages_usage_path(void);

/*
 * Take `size_bytes` of a device for this process, unless all processes of the container then held
 * more than `limit_bytes`. `uuid` is as the control page writes it. The first call joins the usage
 * page. Returns 0 and the device's cell index; -ENOMEM: over the limit; -EPERM: the usage page
 * cannot be used.
 */
int pages_reserve(const char *uuid, uint64_t size_bytes, uint64_t limit_bytes, uint32_t *ret_device);

/* Give back what pages_reserve took; never below zero. */
void pages_release(uint32_t device, uint64_t size_bytes);

/*
 * What all living processes of the container hold of a device; 0 when none has joined. Joins
 * nothing. Returns 0, or -EPERM when the usage page cannot be read.
 */
int pages_used(const char *uuid, uint64_t *ret_used_bytes);
