/*
 * A container's directories for unit tests: a control page that the test writes, a usage directory.
 * Only for programs built with HAMID_TEST_PATHS.
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hamid_pages.h"
#include "hamid_paths.h"
#include "pages.h"

#define TEST_UUID "GPU-11111111-2222-3333-4444-555555555555"
#define TEST_UUID_2 "MIG-22222222-2222-3333-4444-555555555555"

static char test_dir[256];

static uint32_t test_crc32(const void *bytes, size_t length)
{
	uint32_t crc = ~0u;
	for (size_t i = 0; i < length; i++) {
		crc ^= ((const uint8_t *)bytes)[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

struct test_page {
	struct hamid_control header;
	struct hamid_control_device devices[2];
};

/* A good page for two devices; `seal` after every change of it. */
static inline struct test_page test_control_page(uint64_t limit_bytes)
{
	struct test_page page = {
		.header = {
			.magic = HAMID_CONTROL_MAGIC,
			.abi_version = HAMID_ABI_VERSION,
			.size_bytes = sizeof page,
			.header_bytes = sizeof page.header,
			.device_bytes = sizeof page.devices[0],
			.device_count = 2,
			.generation = 7,
			.priority = 1,
		},
		.devices = {
			{.uuid = TEST_UUID, .memory_limit_bytes = limit_bytes, .core_percent = 30, .weight = 1},
			{.uuid = TEST_UUID_2, .memory_limit_bytes = HAMID_UNLIMITED, .weight = 1},
		},
	};
	return page;
}

static inline void test_seal(struct test_page *page)
{
	page->header.crc32 = 0;
	page->header.crc32 = test_crc32(page, sizeof *page);
}

static inline void test_make_container(void)
{
	snprintf(test_dir, sizeof test_dir, "/tmp/hamid-unit-XXXXXX");
	if (!mkdtemp(test_dir))
		exit(2);
	setenv("HAMID_TEST_LIMITS_DIR", test_dir, 1);
	setenv("HAMID_TEST_USAGE_DIR", test_dir, 1);
	setenv(HAMID_ENV_LOG, "off", 1);
}

/* As the host does it: a new file, renamed into place. */
static inline void test_write_control(const void *bytes, size_t length)
{
	char path[512], new_path[520];
	snprintf(path, sizeof path, "%s/%s", test_dir, HAMID_CONTROL_FILE);
	snprintf(new_path, sizeof new_path, "%s.new", path);
	int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, bytes, length) != (ssize_t)length || close(fd) < 0 ||
	    rename(new_path, path) < 0)
		exit(2);
}

static inline void test_set_limit(uint64_t limit_bytes)
{
	struct test_page page = test_control_page(limit_bytes);
	test_seal(&page);
	test_write_control(&page, sizeof page);
}

static inline void test_remove_container(void)
{
	char path[512];
	const char *const names[] = {HAMID_CONTROL_FILE, HAMID_USAGE_FILE, HAMID_LIVE_FILE};
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", test_dir, names[i]);
		unlink(path);
	}
	rmdir(test_dir);
}

/* Take of the device with this name, of which all together may have so much. As pages_claim(). */
static inline int test_reserve(const char *uuid, uint64_t size_bytes, uint64_t limit_bytes, uint32_t *ret_device)
{
	struct pages_device device = {0};
	uint16_t cell = 0;
	snprintf(device.name, sizeof device.name, "%s", uuid);
	int r = pages_device_cell(&device, &cell);
	if (r == 0)
		r = pages_claim(cell, size_bytes, limit_bytes);
	*ret_device = cell;
	return r;
}
