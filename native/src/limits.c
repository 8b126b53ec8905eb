#include "limits.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static uint32_t crc32_step(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
	}
	return crc;
}

static uint32_t page_crc32(const uint8_t *page, size_t length)
{
	static const uint8_t zero[sizeof(uint32_t)];
	const size_t at = offsetof(struct hamid_control, crc32);
	uint32_t crc = crc32_step(~0u, page, at);
	crc = crc32_step(crc, zero, sizeof zero);
	crc = crc32_step(crc, page + at + sizeof zero, length - at - sizeof zero);
	return ~crc;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Printable, not empty, NUL-padded to the end. */
static bool is_uuid(const char *uuid)
{
	size_t length = strnlen(uuid, HAMID_UUID_BYTES);
	if (length == 0 || length == HAMID_UUID_BYTES)
		return false;
	for (size_t i = 0; i < length; i++)
		if (uuid[i] <= ' ' || uuid[i] > '~')
			return false;
	return is_zero((const uint8_t *)uuid + length, HAMID_UUID_BYTES - length);
}

static const char *device_fault(const struct hamid_control_device *device, uint64_t feature_bits)
{
	if (!is_uuid(device->uuid))
		return "a device's UUID is no text";
	if (device->core_percent > 100)
		return "a core limit is over 100 percent";
	if (!(feature_bits & HAMID_CONTROL_HAS_MEMORY_TERMS) &&
	    (device->context_bytes || device->fixed_limit_bytes))
		return "it has memory terms, but says it has none";
	if (!is_zero(device->reserved, sizeof device->reserved))
		return "reserved bytes of a device are not zero";
	return NULL;
}

static const char *header_fault(const struct hamid_control *header, size_t length)
{
	if (header->header_bytes != sizeof *header ||
	    header->device_bytes != sizeof(struct hamid_control_device))
		return "its parts have the wrong size";
	if (header->device_count > HAMID_DEVICES_MAX)
		return "it names too many devices";
	if (header->size_bytes != length ||
	    length != sizeof *header + header->device_count * sizeof(struct hamid_control_device))
		return "its length is not what its header says";
	if (header->mode > HAMID_MODE_PRIORITY)
		return "its mode is unknown";
	if ((header->flags & ~HAMID_FLAGS_KNOWN) ||
	    (header->flags && !(header->feature_bits & HAMID_CONTROL_HAS_FLAGS)))
		return "its flags are unknown";
	if (!is_zero(header->reserved, sizeof header->reserved))
		return "reserved bytes are not zero";
	return NULL;
}

int limits_parse(const void *page, size_t length, struct limits *ret_limits, const char **ret_why)
{
	struct hamid_control header;
	if (length < sizeof header) {
		*ret_why = "it is too short";
		return -EBADMSG;
	}
	memcpy(&header, page, sizeof header);
	if (header.magic != HAMID_CONTROL_MAGIC) {
		*ret_why = "it does not start with the magic number";
		return -EBADMSG;
	}
	if (header.abi_version != HAMID_ABI_VERSION ||
	    (header.feature_bits & ~HAMID_CONTROL_FEATURES_KNOWN)) {
		*ret_why = "it was written for another version of this library";
		return -EPROTO;
	}
	*ret_why = header_fault(&header, length);
	if (*ret_why)
		return -EBADMSG;
	if (page_crc32(page, length) != header.crc32) {
		*ret_why = "its checksum is wrong";
		return -EBADMSG;
	}

	struct limits limits = {
		.generation = header.generation,
		.priority = header.priority,
		.mode = header.mode,
		.flags = header.flags,
	};
	for (uint32_t i = 0; i < header.device_count; i++) {
		struct hamid_control_device device;
		memcpy(&device, (const char *)page + sizeof header + i * sizeof device, sizeof device);
		*ret_why = device_fault(&device, header.feature_bits);
		if (*ret_why)
			return -EBADMSG;
		limits.device_count = i;
		if (limits_find(&limits, device.uuid)) {
			*ret_why = "it names a device twice";
			return -EBADMSG;
		}
		memcpy(limits.devices[i].uuid, device.uuid, sizeof device.uuid);
		limits.devices[i].memory_limit_bytes = device.memory_limit_bytes;
		limits.devices[i].core_percent = device.core_percent;
		limits.devices[i].weight = device.weight;
		limits.devices[i].index = i;
		limits.devices[i].context_bytes = device.context_bytes;
		limits.devices[i].fixed_limit_bytes = device.memory_limit_bytes;
		if ((header.feature_bits & HAMID_CONTROL_HAS_MEMORY_TERMS) &&
		    device.fixed_limit_bytes < device.memory_limit_bytes)
			limits.devices[i].fixed_limit_bytes = device.fixed_limit_bytes;
	}
	limits.device_count = header.device_count;
	*ret_limits = limits;
	return 0;
}

static const char *tail(const char *uuid)
{
	const char *dash = strchr(uuid, '-');
	return dash ? dash + 1 : uuid;
}

const struct device_limit *limits_find(const struct limits *limits, const char *uuid)
{
	for (uint32_t i = 0; i < limits->device_count; i++)
		if (strcmp(tail(limits->devices[i].uuid), tail(uuid)) == 0)
			return &limits->devices[i];
	return NULL;
}
