/*
 * What all processes hold of a device, in the usage page, and how one takes more. Figures may be
 * nonsense, for the container can write them: sums saturate.
 *
 * Threads: any, of any process; no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hamid_pages.h"

struct usage_claim {
	uint32_t device;
	uint64_t size_bytes;
	uint64_t limit_bytes; /* of all together */
};

/* Granted, or nothing said. */
bool usage_claim_quickly(struct hamid_usage *page, uint32_t slot, const struct usage_claim *claim);

/*
 * One careful try. 0: granted; -ENOMEM: over the limit for certain; -EAGAIN: only with what is announced.
 */
int usage_try_claim(struct hamid_usage *page, uint32_t slot, const struct usage_claim *claim);

/* What is granted to all together. */
uint64_t usage_used_bytes(struct hamid_usage *page, uint32_t device);
