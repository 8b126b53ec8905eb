/*
 * The control page's reader. Input: a byte, then the page; with the byte's lowest bit its checksum is made right first,
 * for what lies behind the checksum would be found by nobody else.
 */
#include "limits.h"

#include <errno.h>

#include "container.h"
#include "fuzz.h"

static void check_limits(const struct limits *limits)
{
	MUST(limits->device_count <= HAMID_DEVICES_MAX);
	MUST(limits->mode <= HAMID_MODE_PRIORITY);
	MUST(!(limits->flags & ~HAMID_FLAGS_KNOWN));
	for (uint32_t i = 0; i < limits->device_count; i++) {
		const struct device_limit *device = &limits->devices[i];
		const size_t length = strnlen(device->uuid, HAMID_UUID_BYTES);
		MUST(length > 0 && length < HAMID_UUID_BYTES);
		MUST(device->core_percent <= 100);
		MUST(device->fixed_limit_bytes <= device->memory_limit_bytes);
		MUST(device->index == i);
		MUST(limits_find(limits, device->uuid) == device);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct limits limits;
	const char *why = NULL;
	if (length < 1 || length > 2 * HAMID_CONTROL_BYTES_MAX)
		return 0;
	const size_t size = length - 1;
	uint8_t *exact = malloc(size ? size : 1);
	MUST(exact);
	memcpy(exact, bytes + 1, size);
	if (bytes[0] & 1 && size >= sizeof(struct hamid_control)) {
		const size_t at = offsetof(struct hamid_control, crc32);
		memset(exact + at, 0, sizeof(uint32_t));
		const uint32_t crc = test_crc32(exact, size);
		memcpy(exact + at, &crc, sizeof crc);
	}
	limits.device_count = HAMID_DEVICES_MAX + 1;
	const int r = limits_parse(exact, size, &limits, &why);
	free(exact);
	MUST(r == 0 || r == -EBADMSG || r == -EPROTO);
	if (r == 0) {
		check_limits(&limits);
		return 0;
	}
	MUST(why && *why);
	MUST(limits.device_count == HAMID_DEVICES_MAX + 1); /* left alone */
	return 0;
}
