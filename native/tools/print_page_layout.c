/* Prints the pages' layout and the paths as JSON, for the check against hamid/hooks/abi. */
#include <stdio.h>

#include "hamid_pages.h"
#include "hamid_paths.h"

#define FIELD(type, field) \
	printf("  \"%s.%s\": [%zu, %zu],\n", #type, #field, offsetof(struct type, field), \
	       sizeof(((struct type *)0)->field))
#define SIZE(type) printf("  \"%s\": %zu,\n", #type, sizeof(struct type))
#define NUMBER(name) printf("  \"%s\": %llu,\n", #name, (unsigned long long)(name))
#define TEXT(name) printf("  \"%s\": \"%s\",\n", #name, name)

int main(void)
{
	printf("{\n");
	SIZE(hamid_control);
	FIELD(hamid_control, magic);
	FIELD(hamid_control, abi_version);
	FIELD(hamid_control, size_bytes);
	FIELD(hamid_control, header_bytes);
	FIELD(hamid_control, device_bytes);
	FIELD(hamid_control, device_count);
	FIELD(hamid_control, mode);
	FIELD(hamid_control, generation);
	FIELD(hamid_control, feature_bits);
	FIELD(hamid_control, priority);
	FIELD(hamid_control, crc32);
	FIELD(hamid_control, flags);
	FIELD(hamid_control, reserved);
	SIZE(hamid_control_device);
	FIELD(hamid_control_device, uuid);
	FIELD(hamid_control_device, memory_limit_bytes);
	FIELD(hamid_control_device, core_percent);
	FIELD(hamid_control_device, weight);
	FIELD(hamid_control_device, context_bytes);
	FIELD(hamid_control_device, fixed_limit_bytes);
	FIELD(hamid_control_device, reserved);
	SIZE(hamid_live);
	FIELD(hamid_live, magic);
	FIELD(hamid_live, abi_version);
	FIELD(hamid_live, size_bytes);
	FIELD(hamid_live, header_bytes);
	FIELD(hamid_live, device_bytes);
	FIELD(hamid_live, device_count);
	FIELD(hamid_live, padding);
	FIELD(hamid_live, heartbeat_ns);
	FIELD(hamid_live, generation);
	FIELD(hamid_live, reserved);
	SIZE(hamid_live_device);
	FIELD(hamid_live_device, uuid);
	FIELD(hamid_live_device, rate_permille);
	FIELD(hamid_live_device, flags);
	FIELD(hamid_live_device, uncounted_bytes);
	SIZE(hamid_budget);
	FIELD(hamid_budget, due_ns);
	FIELD(hamid_budget, charged_ns);
	FIELD(hamid_budget, wanted_ns);
	FIELD(hamid_budget, waited_ns);
	FIELD(hamid_budget, reserved);
	SIZE(hamid_usage);
	FIELD(hamid_usage, magic);
	FIELD(hamid_usage, abi_version);
	FIELD(hamid_usage, size_bytes);
	FIELD(hamid_usage, header_bytes);
	FIELD(hamid_usage, slot_bytes);
	FIELD(hamid_usage, slot_count);
	FIELD(hamid_usage, device_capacity);
	FIELD(hamid_usage, feature_bits);
	FIELD(hamid_usage, device_count);
	FIELD(hamid_usage, slots_high_water);
	FIELD(hamid_usage, shares_high_water);
	FIELD(hamid_usage, reserved);
	FIELD(hamid_usage, device_uuids);
	FIELD(hamid_usage, budgets);
	FIELD(hamid_usage, reserved_tail);
	SIZE(hamid_usage_slot);
	FIELD(hamid_usage_slot, state);
	FIELD(hamid_usage_slot, pid);
	FIELD(hamid_usage_slot, start_time_ticks);
	FIELD(hamid_usage_slot, pid_namespace);
	FIELD(hamid_usage_slot, generation);
	FIELD(hamid_usage_slot, enforced);
	FIELD(hamid_usage_slot, reserved);
	FIELD(hamid_usage_slot, cells);
	SIZE(hamid_usage_share);
	FIELD(hamid_usage_share, key);
	FIELD(hamid_usage_share, size_bytes);
	FIELD(hamid_usage_share, maker);
	FIELD(hamid_usage_share, cell);
	FIELD(hamid_usage_share, fixed_cell);
	FIELD(hamid_usage_share, reserved);
	FIELD(hamid_usage_share, users);
	SIZE(hamid_usage_cell);
	FIELD(hamid_usage_cell, used_bytes);
	FIELD(hamid_usage_cell, pending_bytes);
	NUMBER(HAMID_ABI_VERSION);
	NUMBER(HAMID_USAGE_VERSION);
	NUMBER(HAMID_LIVE_VERSION);
	NUMBER(HAMID_LIVE_MAGIC);
	NUMBER(HAMID_LIVE_STALE_NS);
	NUMBER(HAMID_LIVE_BYTES_MAX);
	NUMBER(HAMID_LIVE_CONTENDED);
	NUMBER(HAMID_RATE_UNSAID);
	NUMBER(HAMID_RATE_STOP);
	NUMBER(HAMID_RATE_MAX_PERMILLE);
	NUMBER(HAMID_CONTROL_FEATURES_KNOWN);
	NUMBER(HAMID_CONTROL_HAS_FLAGS);
	NUMBER(HAMID_FLAG_TRUST_MPS);
	NUMBER(HAMID_ENFORCED_MIG);
	NUMBER(HAMID_ENFORCED_MPS);
	NUMBER(HAMID_ENFORCED_DMEM);
	NUMBER(HAMID_SEEN_MPS);
	NUMBER(HAMID_CONTROL_HAS_MEMORY_TERMS);
	NUMBER(HAMID_CONTROL_MAGIC);
	NUMBER(HAMID_USAGE_MAGIC);
	NUMBER(HAMID_UUID_BYTES);
	NUMBER(HAMID_DEVICES_MAX);
	NUMBER(HAMID_SLOTS_MAX);
	NUMBER(HAMID_SHARES_MAX);
	NUMBER(HAMID_UNLIMITED);
	NUMBER(HAMID_USAGE_BYTES);
	NUMBER(HAMID_LOCK_SLOW);
	NUMBER(HAMID_LOCK_SLOT(0));
	NUMBER(HAMID_SLOT_FREE);
	NUMBER(HAMID_SLOT_ACTIVE);
	NUMBER(HAMID_SLOT_EXITING);
	NUMBER(HAMID_SLOT_LEFT);
	NUMBER(HAMID_MODE_HARD);
	NUMBER(HAMID_MODE_LEND);
	NUMBER(HAMID_MODE_PRIORITY);
	TEXT(HAMID_FIXED_SUFFIX);
	TEXT(HAMID_LIMITS_DIR);
	TEXT(HAMID_CONTROL_FILE);
	TEXT(HAMID_LIVE_FILE);
	TEXT(HAMID_USAGE_DIR);
	TEXT(HAMID_USAGE_FILE);
	TEXT(HAMID_ENV_LOG);
	printf("  \"end\": 0\n}\n");
	return 0;
}
