/*
 * The simulated machine: which cards it has and how they fare, read from a plain text file.
 *
 * Both simulated drivers (libnvidia-ml.so.1 and libcuda.so.1) read the same file, so they agree
 * about every card. The file is also the control: whoever rewrites it (a temporary file, then
 * rename) changes the machine while programs run on it.
 *
 * Grammar: blocks separated by blank lines, `key=value` lines, `#` starts a comment line. A block
 * with a `uuid` is a card; a block without one speaks of the driver as a whole. README.md beside
 * this file lists the keys. An unknown key or a bad value refuses the whole file, naming the line.
 *
 * Terms: card = physical GPU; instance = MIG instance of a card; profile = all cards of the machine.
 * Threads: none of these functions locks; the caller owns the struct it passes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define PROFILE_DEFAULT_PATH "/usr/local/hamid-sim/devices"
#define PROFILE_ENV "HAMID_SIM_DEVICES"
#define PROFILE_VISIBLE_ENV "NVIDIA_VISIBLE_DEVICES"

#define PROFILE_MAX_CARDS 32
#define PROFILE_MAX_INSTANCES 8
#define PROFILE_MAX_LINKS 36
#define PROFILE_MAX_PROCESSES 32
#define PROFILE_MAX_EVENTS 16
#define PROFILE_TEXT 96
#define PROFILE_WHOLE_CARD UINT32_MAX /* in place of an instance id: the event or process is the card's */

/* What a card refuses; bits of struct card.fails. */
enum card_fail {
	FAIL_LOST = 1 << 0,           /* every call: GPU is lost */
	FAIL_UNKNOWN = 1 << 1,        /* every call: unknown error */
	FAIL_RESET_REQUIRED = 1 << 2, /* every call: GPU requires reset */
	FAIL_NO_MEMORY_INFO = 1 << 3, /* not supported, as on cards that share memory with the CPU */
	FAIL_NO_UTILISATION = 1 << 4,
	FAIL_NO_PROCESSES = 1 << 5,
	FAIL_NO_EVENTS = 1 << 6,
	FAIL_NO_TEMPERATURE = 1 << 7,
	FAIL_HANG = 1 << 8, /* memory info does not return until the file no longer says so */
};

/* What the driver as a whole refuses. */
enum driver_fail {
	DRIVER_OK,
	DRIVER_NOT_LOADED,
	DRIVER_MISMATCH, /* library and kernel module of different versions */
	DRIVER_UNKNOWN,
};

struct instance {
	char uuid[PROFILE_TEXT];
	char profile[32]; /* "1g.10gb" */
	uint64_t memory_mib;
	uint32_t gpu_instance;
	uint32_t compute_instance;
};

struct link {
	char peer[PROFILE_TEXT]; /* a card's uuid, or "switch" */
	uint32_t count;
};

struct process {
	uint32_t pid;
	uint64_t memory_mib;
	uint32_t gpu_instance;
	uint32_t compute_instance;
};

struct event {
	uint64_t type; /* bit as in nvmlEventType… */
	uint64_t data; /* the XID, for XID events */
	uint64_t sequence;
	uint32_t gpu_instance;
	uint32_t compute_instance;
};

struct card {
	char uuid[PROFILE_TEXT];
	char name[PROFILE_TEXT];
	uint32_t index; /* place among the cards of the file, not of the visible ones */
	uint32_t minor;
	uint64_t memory_mib;
	uint64_t reserved_mib; /* the driver's own, counted as used in NVML's first memory call */
	uint64_t used_mib;     /* by nobody in particular */
	uint64_t context_mib;  /* what each CUDA context costs */
	uint32_t pci_domain, pci_bus, pci_device;
	int numa_node; /* -1: none */
	uint32_t cc_major, cc_minor;
	uint32_t multiprocessors;
	int pcie_switch; /* cards with the same number hang on one switch; -1: on none */
	bool mig_capable;
	bool mig_enabled;
	bool p2p;
	uint32_t gpu_util, mem_util; /* percent */
	uint32_t temperature_c;
	uint32_t power_mw, power_limit_mw;
	uint32_t fails; /* enum card_fail */
	struct instance instances[PROFILE_MAX_INSTANCES];
	uint32_t instance_count;
	struct link links[PROFILE_MAX_LINKS];
	uint32_t link_count;
	struct process processes[PROFILE_MAX_PROCESSES];
	uint32_t process_count;
	struct event events[PROFILE_MAX_EVENTS];
	uint32_t event_count;
};

struct profile {
	char driver_version[80];
	int cuda_version; /* 13000 = 13.0 */
	enum driver_fail driver_fail;
	struct card cards[PROFILE_MAX_CARDS];
	uint32_t card_count;
};

/* The file as it was when last read; zero it before the first refresh. */
struct profile_file {
	struct timespec modified_at, changed_at;
	ino_t inode;
	off_t size;
	bool is_read;
};

/* The file named by the environment, or the fixed path. */
const char *profile_path(void);

/*
 * Read text of `length` bytes. Returns 0, or -EINVAL with *ret_line (1-based) and *ret_why (static
 * text) saying what is wrong. `profile` is written only on success.
 */
int profile_parse(const char *text, size_t length, struct profile *profile, int *ret_line,
		  const char **ret_why);

/*
 * Read the file at `path` if it changed since `file`. Returns 1 when `profile` is new, 0 when it is
 * as before, -errno when the file cannot be read or parsed (said once on stderr per version of
 * the file); `profile` then keeps what it had.
 */
int profile_refresh(const char *path, struct profile_file *file, struct profile *profile);

/*
 * Drop the cards that `visible` hides: a comma list of UUIDs (of cards or MIG instances) or indices;
 * NULL or "all" hides none; "", "none" and "void" hide all. Order stays the file's.
 */
void profile_filter(struct profile *profile, const char *visible);

/* The card with this uuid, or whose instance has it (then *ret_instance is set, else NULL). */
const struct card *profile_find(const struct profile *profile, const char *uuid,
				const struct instance **ret_instance);
