/*
 * The two pages that the node's daemon and the library in a container share.
 *
 * Control page: the host writes it (a new file, then rename), the container sees it read-only. It
 * says what the container may use. Usage page: the container's processes write it, nobody trusts
 * it. It says what they hold, and their reservations are decided in it.
 *
 * Terms: device = a GPU or MIG instance, told by its NVML UUID; slot = one process's place in the
 * usage page, never moved while it lives; cell = one slot's figures for one device.
 *
 * Rules: fixed-width little-endian fields, padding spelled out and zero; "unlimited" is UINT64_MAX,
 * "nothing" is 0. hamid/hooks/abi/pages.py is the other side, written by hand as well;
 * tests/native/test_page_layout.py compares the two. Any change raises HAMID_ABI_VERSION, or, of
 * the usage page alone, HAMID_USAGE_VERSION: so a running container still reads its control page.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define HAMID_ABI_VERSION 1u
/* The usage page's own. Version 1 had zeros in place of budget_due_ns, and is read as well. */
#define HAMID_USAGE_VERSION 2u

#define HAMID_CONTROL_MAGIC 0x4c544344494d4148ull /* "HAMIDCTL" in memory */
#define HAMID_USAGE_MAGIC 0x45535544494d4148ull   /* "HAMIDUSE" */

#define HAMID_UUID_BYTES 48
#define HAMID_DEVICES_MAX 64
#define HAMID_SLOTS_MAX 1024
#define HAMID_UNLIMITED UINT64_MAX

/* Bits a reader has to understand; it refuses a page that has others. None is defined yet. */
#define HAMID_CONTROL_FEATURES_KNOWN 0ull
#define HAMID_USAGE_FEATURES_KNOWN 0ull

/* How core limits act: struct hamid_control.mode. */
enum hamid_mode {
	HAMID_MODE_HARD = 0,     /* never above the cap */
	HAMID_MODE_LEND = 1,     /* idle shares go to busy containers, by weight */
	HAMID_MODE_PRIORITY = 2, /* higher priority first */
};

struct hamid_control {
	uint64_t magic;
	uint32_t abi_version;
	uint32_t size_bytes;   /* of the whole page */
	uint32_t header_bytes; /* where the devices start */
	uint32_t device_bytes; /* from one device to the next */
	uint32_t device_count;
	uint32_t mode;
	uint64_t generation; /* grows with every change */
	uint64_t feature_bits;
	uint32_t priority; /* 0 = highest */
	uint32_t crc32;    /* of the whole page with this field zero (the CRC of zlib) */
	uint8_t reserved[72];
};

struct hamid_control_device {
	char uuid[HAMID_UUID_BYTES]; /* NUL-padded */
	uint64_t memory_limit_bytes;
	uint32_t core_percent; /* 0 = no cap, 100 = whole */
	uint32_t weight;
	uint8_t reserved[64];
};

enum hamid_slot_state {
	HAMID_SLOT_FREE = 0,
	HAMID_SLOT_ACTIVE = 1,
	HAMID_SLOT_EXITING = 2, /* said good-bye: still counted here until the kernel has it gone */
};

struct hamid_usage_cell {
	uint64_t used_bytes;    /* granted */
	uint64_t pending_bytes; /* asked for, verdict not yet known */
};

struct hamid_usage_slot {
	uint32_t state;
	uint32_t pid; /* in its own namespace */
	uint64_t start_time_ticks;
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
	uint64_t generation;    /* how often this slot was taken */
	uint8_t reserved[32];
	struct hamid_usage_cell cells[HAMID_DEVICES_MAX];
};

struct hamid_usage {
	uint64_t magic;
	uint32_t abi_version;
	uint32_t size_bytes; /* of the whole page */
	uint32_t header_bytes;
	uint32_t slot_bytes;
	uint32_t slot_count;
	uint32_t device_capacity;
	uint64_t feature_bits;
	uint32_t device_count; /* names taken in device_uuids; they are never given back */
	uint32_t slots_high_water; /* slots at and above were never used */
	uint8_t reserved[80];
	char device_uuids[HAMID_DEVICES_MAX][HAMID_UUID_BYTES];
	uint64_t budget_due_ns[HAMID_DEVICES_MAX]; /* see throttle.h */
	uint8_t reserved_tail[384];
};

#define HAMID_CONTROL_BYTES_MAX \
	(sizeof(struct hamid_control) + HAMID_DEVICES_MAX * sizeof(struct hamid_control_device))
#define HAMID_USAGE_BYTES \
	(sizeof(struct hamid_usage) + HAMID_SLOTS_MAX * sizeof(struct hamid_usage_slot))

/*
 * Record locks on the usage page (open-file-description locks, so the kernel drops them when the
 * holder dies). One byte is the slow lock: joining, reaping, contested verdicts. One byte per slot
 * is held by its owner for life: whoever cannot see the owner's pid asks the kernel instead.
 */
#define HAMID_LOCK_SLOW 0x40000000ll
#define HAMID_LOCK_SLOT(index) (HAMID_LOCK_SLOW + 1 + (int64_t)(index))

static_assert(sizeof(struct hamid_control) == 128, "control header");
static_assert(offsetof(struct hamid_control, abi_version) == 8, "control abi_version");
static_assert(offsetof(struct hamid_control, size_bytes) == 12, "control size_bytes");
static_assert(offsetof(struct hamid_control, device_count) == 24, "control device_count");
static_assert(offsetof(struct hamid_control, generation) == 32, "control generation");
static_assert(offsetof(struct hamid_control, feature_bits) == 40, "control feature_bits");
static_assert(offsetof(struct hamid_control, priority) == 48, "control priority");
static_assert(offsetof(struct hamid_control, crc32) == 52, "control crc32");
static_assert(sizeof(struct hamid_control_device) == 128, "control device");
static_assert(offsetof(struct hamid_control_device, memory_limit_bytes) == 48, "device memory");
static_assert(offsetof(struct hamid_control_device, core_percent) == 56, "device core_percent");
static_assert(offsetof(struct hamid_control_device, weight) == 60, "device weight");

static_assert(sizeof(struct hamid_usage) == 4096, "usage header");
static_assert(offsetof(struct hamid_usage, feature_bits) == 32, "usage feature_bits");
static_assert(offsetof(struct hamid_usage, device_count) == 40, "usage device_count");
static_assert(offsetof(struct hamid_usage, slots_high_water) == 44, "usage slots_high_water");
static_assert(offsetof(struct hamid_usage, device_uuids) == 128, "usage device_uuids");
static_assert(offsetof(struct hamid_usage, budget_due_ns) == 3200, "usage budget_due_ns");
static_assert(sizeof(struct hamid_usage_slot) == 1088, "usage slot");
static_assert(sizeof(struct hamid_usage_slot) % 64 == 0, "slots start on cache lines");
static_assert(offsetof(struct hamid_usage_slot, pid) == 4, "slot pid");
static_assert(offsetof(struct hamid_usage_slot, start_time_ticks) == 8, "slot start_time_ticks");
static_assert(offsetof(struct hamid_usage_slot, pid_namespace) == 16, "slot pid_namespace");
static_assert(offsetof(struct hamid_usage_slot, generation) == 24, "slot generation");
static_assert(offsetof(struct hamid_usage_slot, cells) == 64, "slot cells");
