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

#include <stdbool.h>
#include <stdint.h>

#include "hamid_pages.h"
#include "limits.h"

/*
 * What the host allows of the device with this UUID (any prefix, see limits_find). A change on the
 * host is seen within HAMID_LOOK_EVERY_NS. A device that the page does not name: limit 0, and the UUID as
 * given. Returns 0; -ENOENT: outside; -EPERM: the page is missing or cannot be trusted (said once).
 * Fails closed.
 */
int pages_limit(const char *uuid, struct device_limit *ret_limit);

/* Is this a container of ours, whatever its page is worth? Decided once. */
bool pages_are_ours(void);

/* Where the pages are; fixed, except in the library built for tests. */
const char *pages_limits_dir(void);
const char *pages_usage_path(void);

/*
 * A device as this process knows it, with what was last found out about it. Only the UUID has to be
 * filled in; it lives as long as the process.
 */
struct pages_device {
	char uuid[HAMID_UUID_BYTES]; /* any prefix */
	char name[HAMID_UUID_BYTES]; /* as the control page writes it */
	_Atomic uint64_t limit_epoch; /* which reading of the control page the limit is of */
	_Atomic uint64_t limit_bytes;
	_Atomic uint32_t core_percent; /* 0 or 100: no cap; of the same reading */
	_Atomic uint32_t mode, flags, index; /* so are these */
	_Atomic uint64_t generation;
	_Atomic uint64_t context_bytes; /* what each context is charged; of the same reading */
	_Atomic uint64_t fixed_limit_bytes; /* below limit_bytes: oversubscribed; of the same reading */
	_Atomic uint64_t cell; /* its cell's index + 1, under the count of forks it was found in */
	_Atomic uint64_t fixed_cell; /* the same for what cannot leave the device (pages_fixed_cell()) */
};

/*
 * The limit of a device, of a page that was looked at within the last HAMID_LOOK_EVERY_NS. Returns
 * as pages_limit().
 */
int pages_device_limit(struct pages_device *device, uint64_t *ret_limit_bytes);

/*
 * What the container holds of it beyond what it is charged, as the host says (struct hamid_live_device); of
 * the last look that pages_device_limit() took. It leaves so much less to be claimed.
 */
uint64_t pages_device_uncounted(const struct pages_device *device);

/* How the device's time may be used now. */
struct pages_rate {
	uint64_t permille; /* of it, by our measure: may be over 1000; 0: no cap; or HAMID_RATE_STOP */
	uint32_t percent;  /* what the control page promises, 1 to 99; 0: no cap */
	uint32_t flags;    /* HAMID_FLAG_… */
	bool is_live;      /* decided at this moment, and may be less at the next */
	bool is_contended; /* others are busy there, see HAMID_LIVE_CONTENDED */
};

/*
 * The rate of this moment: the control page's cap, or what the live page makes of it. Of a control page that
 * cannot be trusted now, what was last read; -EPERM if nothing ever was.
 */
int pages_device_rate(struct pages_device *device, uint64_t now_ns, struct pages_rate *ret_rate);

/* The device's budget in the usage page; joins it. NULL: it cannot be used. */
struct hamid_budget *pages_device_budget(struct pages_device *device);

/* Say in this process's slot what else holds it (HAMID_ENFORCED_…). */
void pages_note_enforced(uint32_t enforced);

/* Look at the control page at the next question, however short ago it was looked at. */
void pages_look_again(void);

#define HAMID_LOOK_EVERY_NS 50000000ull

/* The device's cell in the usage page; the first call joins it. 0, -ENOMEM or -EPERM. */
int pages_device_cell(struct pages_device *device, uint16_t *ret_cell);

/*
 * Where a device is oversubscribed: the cell beside the first that counts what cannot leave the device, under
 * the device's name and HAMID_FIXED_SUFFIX. 0, -ENOMEM (its name has no room for that) or -EPERM.
 */
int pages_fixed_cell(struct pages_device *device, uint16_t *ret_cell);

/*
 * Take `size_bytes` of a cell's device for this process, unless all processes of the container then
 * held more than `limit_bytes`. 0; -ENOMEM: over the limit; -EPERM: the page cannot be used.
 */
int pages_claim(uint16_t cell, uint64_t size_bytes, uint64_t limit_bytes);

/* Count what is held already, whatever the limit. */
void pages_force(uint16_t cell, uint64_t size_bytes);

/* Give back what was claimed; never below zero. */
void pages_release(uint32_t device, uint64_t size_bytes);

/*
 * What all living processes of the container hold of a device; 0 when none has joined. Joins
 * nothing. Returns 0, or -EPERM when the usage page cannot be read.
 */
int pages_used(const char *uuid, uint64_t *ret_used_bytes);

struct pages_process {
	uint32_t pid;
	uint64_t used_bytes;
};

/*
 * The container's processes with what they hold of a device, which may be nothing, as far as this pid
 * namespace sees them: at most `capacity` are written. How many there are, or as pages_used().
 */
int pages_processes(const char *uuid, struct pages_process *ret_processes, uint32_t capacity);

/* The device's budget in the usage page as it stands; joins nothing. 0, -ENOENT (nobody has joined) or -EPERM. */
int pages_budget_told(const char *uuid, struct hamid_budget *ret_budget);
