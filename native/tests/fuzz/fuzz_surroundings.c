/*
 * What is read of a process's surroundings, text all of it: /proc/<pid>/stat (whose second field is any name that a
 * program gives itself), MPS's percentage in the environment, the cgroup's dmem.max, names of devices. Input: a byte that
 * says which, then the text.
 */
#include "liveness.c"

#include "enforced.h"
#include "fuzz.h"
#include "limits.h"

static void check_stat(char *text)
{
	struct process_stat process = {0};
	if (parse_stat(text, &process))
		MUST(strrchr(text, ')'));
}

static void check_enforced(const char *text, uint8_t which)
{
	struct enforced_facts facts = {.device_name = "GPU-1", .percent = which, .has_mps_pipe = true};
	uint32_t known = HAMID_ENFORCED_MIG | HAMID_SEEN_MPS | HAMID_ENFORCED_DMEM;
	if (which & 1) {
		facts.flags = HAMID_FLAG_TRUST_MPS;
		known |= HAMID_ENFORCED_MPS;
	}
	if (which & 2)
		facts.mps_percent = text;
	if (which & 4)
		facts.dmem_max = text;
	if (which & 8)
		facts.device_name = text;
	MUST(!(enforced_of(&facts) & ~known));
}

static void check_find(const char *text)
{
	const struct limits limits = {
		.device_count = 2,
		.devices = {{.uuid = "GPU-11111111"}, {.uuid = "MIG-2"}},
	};
	const struct device_limit *found = limits_find(&limits, text);
	MUST(!found || (found >= limits.devices && found < limits.devices + 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (length < 1)
		return 0;
	char *text = malloc(length);
	MUST(text);
	memcpy(text, bytes + 1, length - 1);
	text[length - 1] = 0;
	if (bytes[0] & 0x80)
		check_stat(text);
	else if (bytes[0] & 0x40)
		check_find(text);
	else
		check_enforced(text, bytes[0]);
	free(text);
	return 0;
}
