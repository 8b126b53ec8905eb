#include "told.h"

#include <errno.h>

#include "pages.h"

int told_of(const char *uuid, uint64_t total_bytes, uint64_t free_bytes, struct told *ret_told)
{
	struct device_limit limit;
	int r = pages_limit(uuid, &limit);
	if (r < 0)
		return r;
	if (limit.memory_limit_bytes == HAMID_UNLIMITED)
		return -ENOENT;
	uint64_t used;
	r = pages_used(limit.uuid, &used);
	if (r < 0)
		return r;

	/* What an oversubscribed device is promised for may be more than is there. */
	const bool is_bounded = limit.fixed_limit_bytes == limit.memory_limit_bytes;
	const uint64_t total = is_bounded && limit.memory_limit_bytes > total_bytes ?
				       total_bytes :
				       limit.memory_limit_bytes;
	/* A limit may have been lowered below what is held. */
	if (__builtin_add_overflow(used, limit.uncounted_bytes, &used) || used > total)
		used = total;
	uint64_t left = total - used;
	if (is_bounded && left > free_bytes)
		left = free_bytes; /* others hold what would be ours */
	*ret_told = (struct told){
		.total_bytes = total,
		.free_bytes = left,
		.used_bytes = used,
		.is_slice = true,
	};
	return 0;
}
