/* The lines of a profile: what each key means and which values it takes. See profile.h. */
#define _GNU_SOURCE
#include "profile_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What a line says of a card: kind of value, and where in struct card it goes. */
struct key {
	const char *name;
	enum { TEXT, U32, U64, SIGNED, BOOL, WATT } kind;
	size_t offset;
};

#define CARD(field) offsetof(struct card, field)
static const struct key card_keys[] = {
	{"uuid", TEXT, CARD(uuid)},
	{"name", TEXT, CARD(name)},
	{"index", U32, CARD(index)},
	{"minor", U32, CARD(minor)},
	{"memory_mib", U64, CARD(memory_mib)},
	{"reserved_mib", U64, CARD(reserved_mib)},
	{"used_mib", U64, CARD(used_mib)},
	{"context_mib", U64, CARD(context_mib)},
	{"numa", SIGNED, CARD(numa_node)},
	{"sm", U32, CARD(multiprocessors)},
	{"switch", SIGNED, CARD(pcie_switch)},
	{"mig", BOOL, CARD(mig_enabled)},
	{"mig_capable", BOOL, CARD(mig_capable)},
	{"p2p", BOOL, CARD(p2p)},
	{"gpu_util", U32, CARD(gpu_util)},
	{"mem_util", U32, CARD(mem_util)},
	{"temperature", U32, CARD(temperature_c)},
	{"power", WATT, CARD(power_mw)},
	{"power_limit", WATT, CARD(power_limit_mw)},
};

static const struct {
	const char *name;
	uint32_t bit;
} fail_names[] = {
	{"lost", FAIL_LOST},
	{"unknown", FAIL_UNKNOWN},
	{"reset_required", FAIL_RESET_REQUIRED},
	{"not_supported_memory", FAIL_NO_MEMORY_INFO},
	{"not_supported_utilisation", FAIL_NO_UTILISATION},
	{"not_supported_processes", FAIL_NO_PROCESSES},
	{"not_supported_events", FAIL_NO_EVENTS},
	{"not_supported_temperature", FAIL_NO_TEMPERATURE},
	{"hang", FAIL_HANG},
};

static const struct {
	const char *name;
	uint64_t type;
} event_names[] = {
	{"single_bit_ecc", 1}, {"double_bit_ecc", 2}, {"pstate", 4}, {"xid", 8}, {"clock", 16},
};

bool profile_read_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *ret <= max;
}

bool profile_read_text(const char *text, size_t capacity, char *ret)
{
	size_t length = strlen(text);

	if (length == 0 || length >= capacity)
		return false;
	memcpy(ret, text, length + 1);
	return true;
}

/* Cut `text` at `separator` into at most `max` parts, in place; returns how many, 0 when more. */
static size_t split(char *text, char separator, char **parts, size_t max)
{
	size_t count = 0;

	for (;;) {
		if (count == max)
			return 0;
		parts[count++] = text;
		text = strchr(text, separator);
		if (!text)
			return count;
		*text++ = '\0';
	}
}

static bool set_plain(struct card *card, const struct key *key, const char *value)
{
	void *to = (char *)card + key->offset;
	uint64_t number = 0;

	switch (key->kind) {
	case TEXT:
		return profile_read_text(value, PROFILE_TEXT, to);
	case U64:
		return profile_read_number(value, UINT32_MAX, to); /* MiB: 4 EiB are enough */
	case SIGNED:
		if (strcmp(value, "-1") == 0) {
			*(int *)to = -1;
			return true;
		}
		if (!profile_read_number(value, 4096, &number))
			return false;
		*(int *)to = (int)number;
		return true;
	case BOOL:
		if (!profile_read_number(value, 1, &number))
			return false;
		*(bool *)to = number == 1;
		return true;
	case WATT:
		if (!profile_read_number(value, 10000, &number))
			return false;
		*(uint32_t *)to = (uint32_t)number * 1000;
		return true;
	default:
		if (!profile_read_number(value, UINT32_MAX, &number))
			return false;
		*(uint32_t *)to = (uint32_t)number;
		return true;
	}
}

static bool add_instance(struct card *card, char *value)
{
	char *parts[5];
	uint64_t memory, gi, ci;

	if (card->instance_count == PROFILE_MAX_INSTANCES ||
	    split(value, ',', parts, COUNT_OF(parts)) != COUNT_OF(parts))
		return false;

	struct instance *instance = &card->instances[card->instance_count];

	if (!profile_read_text(parts[0], sizeof instance->uuid, instance->uuid) ||
	    !profile_read_text(parts[1], sizeof instance->profile, instance->profile) ||
	    !profile_read_number(parts[2], UINT32_MAX, &memory) || !profile_read_number(parts[3], 255, &gi) ||
	    !profile_read_number(parts[4], 255, &ci))
		return false;
	instance->memory_mib = memory;
	instance->gpu_instance = (uint32_t)gi;
	instance->compute_instance = (uint32_t)ci;
	card->instance_count++;
	return true;
}

static bool add_link(struct card *card, char *value)
{
	char *colon = strrchr(value, ':');
	uint64_t count;
	struct link *link = &card->links[card->link_count];

	if (card->link_count == PROFILE_MAX_LINKS || !colon)
		return false;
	*colon = '\0';
	if (!profile_read_text(value, sizeof link->peer, link->peer) ||
	    !profile_read_number(colon + 1, PROFILE_MAX_LINKS, &count))
		return false;
	link->count = (uint32_t)count;
	card->link_count++;
	return true;
}

/* The last two of `count` parts, when there, are gpu instance and compute instance. */
static bool read_instance_ids(char **parts, size_t count, size_t plain, uint32_t *gi, uint32_t *ci)
{
	uint64_t numbers[2] = {PROFILE_WHOLE_CARD, PROFILE_WHOLE_CARD};

	if (count == plain + 2) {
		if (!profile_read_number(parts[plain], 255, &numbers[0]) ||
		    !profile_read_number(parts[plain + 1], 255, &numbers[1]))
			return false;
	} else if (count != plain) {
		return false;
	}
	*gi = (uint32_t)numbers[0];
	*ci = (uint32_t)numbers[1];
	return true;
}

static bool add_process(struct card *card, char *value)
{
	char *parts[4];
	size_t count = split(value, ':', parts, COUNT_OF(parts));
	uint64_t pid, memory;
	struct process *process = &card->processes[card->process_count];

	if (card->process_count == PROFILE_MAX_PROCESSES || count < 2 ||
	    !profile_read_number(parts[0], UINT32_MAX, &pid) ||
	    !profile_read_number(parts[1], UINT32_MAX, &memory) ||
	    !read_instance_ids(parts, count, 2, &process->gpu_instance, &process->compute_instance))
		return false;
	process->pid = (uint32_t)pid;
	process->memory_mib = memory;
	card->process_count++;
	return true;
}

static bool add_event(struct card *card, char *value)
{
	char *parts[5];
	size_t count = split(value, ':', parts, COUNT_OF(parts));
	struct event *event = &card->events[card->event_count];

	if (card->event_count == PROFILE_MAX_EVENTS || count < 3 ||
	    !profile_read_number(parts[1], UINT64_MAX, &event->data) ||
	    !profile_read_number(parts[2], UINT64_MAX, &event->sequence) ||
	    !read_instance_ids(parts, count, 3, &event->gpu_instance, &event->compute_instance))
		return false;
	for (size_t i = 0; i < COUNT_OF(event_names); i++) {
		if (strcmp(parts[0], event_names[i].name) != 0)
			continue;
		event->type = event_names[i].type;
		card->event_count++;
		return true;
	}
	return false;
}

static bool add_fail(struct card *card, const char *value)
{
	for (size_t i = 0; i < COUNT_OF(fail_names); i++) {
		if (strcmp(value, fail_names[i].name) != 0)
			continue;
		card->fails |= fail_names[i].bit;
		return true;
	}
	return false;
}

bool profile_set_card(struct card *card, const char *key, char *value, bool *ret_is_known)
{
	*ret_is_known = true;
	for (size_t i = 0; i < COUNT_OF(card_keys); i++)
		if (strcmp(key, card_keys[i].name) == 0)
			return set_plain(card, &card_keys[i], value);
	if (strcmp(key, "mig_instance") == 0)
		return add_instance(card, value);
	if (strcmp(key, "nvlink") == 0)
		return add_link(card, value);
	if (strcmp(key, "process") == 0)
		return add_process(card, value);
	if (strcmp(key, "event") == 0)
		return add_event(card, value);
	if (strcmp(key, "fail") == 0)
		return add_fail(card, value);
	if (strcmp(key, "pci") == 0)
		return sscanf(value, "%x:%x:%x.0", &card->pci_domain, &card->pci_bus,
			      &card->pci_device) == 3;
	if (strcmp(key, "cc") == 0)
		return sscanf(value, "%u.%u", &card->cc_major, &card->cc_minor) == 2;
	*ret_is_known = false;
	return false;
}

bool profile_set_driver(struct profile *profile, const char *key, const char *value,
			    bool *ret_is_known)
{
	uint64_t number;

	*ret_is_known = true;
	if (strcmp(key, "driver_version") == 0)
		return profile_read_text(value, sizeof profile->driver_version, profile->driver_version);
	if (strcmp(key, "cuda_version") == 0) {
		if (!profile_read_number(value, 1000000, &number))
			return false;
		profile->cuda_version = (int)number;
		return true;
	}
	if (strcmp(key, "fail") == 0) {
		if (strcmp(value, "driver_not_loaded") == 0)
			profile->driver_fail = DRIVER_NOT_LOADED;
		else if (strcmp(value, "version_mismatch") == 0)
			profile->driver_fail = DRIVER_MISMATCH;
		else if (strcmp(value, "unknown") == 0)
			profile->driver_fail = DRIVER_UNKNOWN;
		else
			return false;
		return true;
	}
	*ret_is_known = false;
	return false;
}
