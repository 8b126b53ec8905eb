/*
 * The pages that the node's daemon and the library in a container share.
 *
 * Control page: the host writes it (a new file, then rename), the container sees it read-only. It
 * says what the container may use. Live page: its part that changes from moment to moment, a file of
 * its own beside it, written in place by the host alone: which rate each device's time may be used
 * at now. Usage page: the container's processes write it, nobody trusts it. It says what they hold and
 * want, and their reservations are decided in it. Each container has its own three, and sees no others:
 * whose idle time is lent to whom, the host decides, who reads all usage pages.
 *
 * Terms: device = a GPU or MIG instance, told by its NVML UUID; slot = one process's place in the
 * usage page, never moved while it lives; cell = one slot's figures for one device.
 *
 * Rules: fixed-width little-endian fields, padding spelled out and zero; "unlimited" is UINT64_MAX,
 * "nothing" is 0. hamid/hooks/abi/ is the other side, written by hand as well;
 * tests/native/test_page_layout.py compares the two. Any change raises HAMID_ABI_VERSION, or, of
 * the usage page alone, HAMID_USAGE_VERSION: so a running container still reads its control page.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define HAMID_ABI_VERSION 1u
/* The live page's own. A live page of another version is as none: then the control page's caps hold. */
#define HAMID_LIVE_VERSION 2u
/*
 * The usage page's own. Versions 1 and 2 had a header of half the length and no budgets in these places,
 * version 3 no shares; the host reads them, and the library makes a page of theirs anew when nobody is left in it.
 */
#define HAMID_USAGE_VERSION 4u

#define HAMID_LIVE_MAGIC 0x56494c44494d4148ull    /* "HAMIDLIV" in memory */
#define HAMID_CONTROL_MAGIC 0x4c544344494d4148ull /* "HAMIDCTL" in memory */
#define HAMID_USAGE_MAGIC 0x45535544494d4148ull   /* "HAMIDUSE" */

#define HAMID_UUID_BYTES 48
#define HAMID_DEVICES_MAX 64
#define HAMID_SLOTS_MAX 1024
#define HAMID_SHARES_MAX 4096
#define HAMID_UNLIMITED UINT64_MAX

/*
 * Bits a reader has to understand; it refuses a page that has others. A writer sets a bit only where a
 * page needs it, so that older libraries read what they understand.
 */
#define HAMID_CONTROL_HAS_FLAGS 1ull /* hamid_control.flags is in use */
#define HAMID_CONTROL_HAS_MEMORY_TERMS 2ull /* its devices say more of memory than a limit */
#define HAMID_CONTROL_FEATURES_KNOWN (HAMID_CONTROL_HAS_FLAGS | HAMID_CONTROL_HAS_MEMORY_TERMS)
#define HAMID_USAGE_FEATURES_KNOWN 0ull

/* hamid_control.flags */
#define HAMID_FLAG_TRUST_MPS 1u /* the host runs MPS: who is held to his threads there needs no cap */
#define HAMID_FLAGS_KNOWN (HAMID_FLAG_TRUST_MPS)

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
	uint32_t flags;    /* HAMID_FLAG_…; 0 without the feature bit */
	uint8_t reserved[68];
};

struct hamid_control_device {
	char uuid[HAMID_UUID_BYTES]; /* NUL-padded */
	uint64_t memory_limit_bytes;
	uint32_t core_percent; /* 0 = no cap, 100 = whole */
	uint32_t weight;
	/* These are 0 without HAMID_CONTROL_HAS_MEMORY_TERMS. */
	uint64_t context_bytes;     /* what each context is charged, its code included; 0 = nothing */
	uint64_t fixed_limit_bytes; /* of the limit, what need not be managed memory; HAMID_UNLIMITED = all of it */
	uint8_t reserved[48];
};

/*
 * The live page. Its writer renews the heartbeat with every change and many times in HAMID_LIVE_STALE_NS; a reader
 * that finds it older, or in the future, goes by the control page alone. It is long beside a look (20 ms, 260 on an idle
 * node), for a busy host holds the writer up by most of a second, and who has no core limit then has none.
 */
#define HAMID_LIVE_STALE_NS 2000000000ull

struct hamid_live {
	uint64_t magic;
	uint32_t abi_version;
	uint32_t size_bytes; /* of the whole page */
	uint32_t header_bytes;
	uint32_t device_bytes;
	uint32_t device_count; /* as in the control page, in the same order */
	uint32_t padding;
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC */
	uint64_t generation;   /* of the control page that it goes with */
	uint8_t reserved[80];
};

/*
 * rate: how fast the device's time may be used, in thousandths of it by our own measure, which NVML's
 * has been compared with: so it may be over 1000. One word, read and written whole.
 */
#define HAMID_RATE_UNSAID 0ull         /* the control page's cap */
#define HAMID_RATE_STOP UINT64_MAX     /* nothing starts until it changes */
#define HAMID_RATE_MAX_PERMILLE 8000ull /* beyond is nonsense, and as if unsaid */

/*
 * Others are busy on the device, and NVML says how busy who is: then what passes between two events is at
 * most what the work between them took.
 */
#define HAMID_LIVE_CONTENDED 1ull

struct hamid_live_device {
	char uuid[HAMID_UUID_BYTES];
	uint64_t rate_permille;
	uint64_t flags; /* HAMID_LIVE_… */
	/*
	 * What the driver says that the container's processes hold beyond what they are charged: code, and
	 * whatever got around us. It counts against the limit; 0 where the host does not ask for that.
	 */
	uint64_t uncounted_bytes;
};

enum hamid_slot_state {
	HAMID_SLOT_FREE = 0,
	HAMID_SLOT_ACTIVE = 1,
	HAMID_SLOT_EXITING = 2, /* said good-bye: still counted here until the kernel has it gone */
	HAMID_SLOT_LEFT = 3, /* no process's: its cells count the shares that no maker is charged for */
};

/*
 * Beside a device that is oversubscribed a second stands in the usage page, of this name: what of the
 * first's bytes cannot leave the device, for lack of being managed memory.
 */
#define HAMID_FIXED_SUFFIX "/fixed"

struct hamid_usage_cell {
	uint64_t used_bytes;    /* granted */
	uint64_t pending_bytes; /* asked for, verdict not yet known */
};

/* What else holds a process to its share, so that we do not: hamid_usage_slot.enforced. */
#define HAMID_ENFORCED_MIG 1u   /* its device is an instance: no cap of ours */
#define HAMID_ENFORCED_MPS 2u   /* threads of MPS: no cap of ours */
#define HAMID_ENFORCED_DMEM 4u  /* the kernel counts device memory, too; so do we */
#define HAMID_SEEN_MPS 8u       /* claims the like of MPS, which the host did not say is so: capped */

struct hamid_usage_slot {
	uint32_t state;
	uint32_t pid; /* in its own namespace */
	uint64_t start_time_ticks;
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
	uint64_t generation;    /* how often this slot was taken */
	uint32_t enforced;      /* HAMID_ENFORCED_…; 0 before version 3 */
	uint8_t reserved[28];
	struct hamid_usage_cell cells[HAMID_DEVICES_MAX];
};

/*
 * Memory that processes of the container open besides the one that made it. As long as its maker has it, he is
 * charged for it; then all together, once, until the last that has it open lets go of it. What came from another
 * container has no maker here.
 */
struct hamid_usage_share {
	uint64_t key; /* what it is opened by; 0: a free place */
	uint64_t size_bytes;
	uint32_t maker;      /* the index of his slot + 1; 0: no maker, so it is counted as left */
	uint16_t cell;       /* of its device */
	uint16_t fixed_cell; /* the index + 1 of the cell beside it (HAMID_FIXED_SUFFIX); 0: none */
	uint8_t reserved[40];
	uint64_t users[HAMID_SLOTS_MAX / 64]; /* a bit for each slot that has it open */
};

/* A device's time, of all processes together. */
struct hamid_budget {
	uint64_t due_ns;     /* see throttle.h */
	uint64_t charged_ns; /* GPU time charged so far, as corrected */
	uint64_t wanted_ns;  /* when somebody last had something to launch (CLOCK_MONOTONIC) */
	uint64_t waited_ns;  /* when somebody last had to wait for it */
	uint8_t reserved[32];
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
	uint32_t shares_high_water;
	uint8_t reserved[76];
	char device_uuids[HAMID_DEVICES_MAX][HAMID_UUID_BYTES];
	struct hamid_budget budgets[HAMID_DEVICES_MAX];
	uint8_t reserved_tail[896];
};

#define HAMID_CONTROL_BYTES_MAX \
	(sizeof(struct hamid_control) + HAMID_DEVICES_MAX * sizeof(struct hamid_control_device))
#define HAMID_LIVE_BYTES_MAX \
	(sizeof(struct hamid_live) + HAMID_DEVICES_MAX * sizeof(struct hamid_live_device))
#define HAMID_USAGE_BYTES \
	(sizeof(struct hamid_usage) + HAMID_SLOTS_MAX * sizeof(struct hamid_usage_slot) + \
	 HAMID_SHARES_MAX * sizeof(struct hamid_usage_share))

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
static_assert(offsetof(struct hamid_control, flags) == 56, "control flags");
static_assert(sizeof(struct hamid_live) == 128, "live header");
static_assert(offsetof(struct hamid_live, device_count) == 24, "live device_count");
static_assert(offsetof(struct hamid_live, heartbeat_ns) == 32, "live heartbeat_ns");
static_assert(offsetof(struct hamid_live, generation) == 40, "live generation");
static_assert(sizeof(struct hamid_live_device) == 72, "live device");
static_assert(offsetof(struct hamid_live_device, rate_permille) == 48, "live rate_permille");
static_assert(offsetof(struct hamid_live_device, flags) == 56, "live flags");
static_assert(offsetof(struct hamid_live_device, uncounted_bytes) == 64, "live uncounted_bytes");
static_assert(sizeof(struct hamid_control_device) == 128, "control device");
static_assert(offsetof(struct hamid_control_device, memory_limit_bytes) == 48, "device memory");
static_assert(offsetof(struct hamid_control_device, core_percent) == 56, "device core_percent");
static_assert(offsetof(struct hamid_control_device, weight) == 60, "device weight");
static_assert(offsetof(struct hamid_control_device, context_bytes) == 64, "device context_bytes");
static_assert(offsetof(struct hamid_control_device, fixed_limit_bytes) == 72, "device fixed");

static_assert(sizeof(struct hamid_budget) == 64, "budgets on cache lines of their own");
static_assert(offsetof(struct hamid_budget, waited_ns) == 24, "budget waited_ns");
static_assert(sizeof(struct hamid_usage) == 8192, "usage header");
static_assert(offsetof(struct hamid_usage, feature_bits) == 32, "usage feature_bits");
static_assert(offsetof(struct hamid_usage, device_count) == 40, "usage device_count");
static_assert(offsetof(struct hamid_usage, slots_high_water) == 44, "usage slots_high_water");
static_assert(offsetof(struct hamid_usage, shares_high_water) == 48, "usage shares_high_water");
static_assert(offsetof(struct hamid_usage, device_uuids) == 128, "usage device_uuids");
static_assert(offsetof(struct hamid_usage, budgets) == 3200, "usage budgets");
static_assert(sizeof(struct hamid_usage_slot) == 1088, "usage slot");
static_assert(sizeof(struct hamid_usage_slot) % 64 == 0, "slots start on cache lines");
static_assert(offsetof(struct hamid_usage_slot, pid) == 4, "slot pid");
static_assert(offsetof(struct hamid_usage_slot, start_time_ticks) == 8, "slot start_time_ticks");
static_assert(offsetof(struct hamid_usage_slot, pid_namespace) == 16, "slot pid_namespace");
static_assert(offsetof(struct hamid_usage_slot, generation) == 24, "slot generation");
static_assert(offsetof(struct hamid_usage_slot, enforced) == 32, "slot enforced");
static_assert(offsetof(struct hamid_usage_slot, cells) == 64, "slot cells");
static_assert(sizeof(struct hamid_usage_share) == 192, "usage share");
static_assert(offsetof(struct hamid_usage_share, users) == 64, "share users");
