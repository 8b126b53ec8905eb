/* What hooks of other families ask of hook_share.c. */
#pragma once

#include <stdint.h>

#include "pages_shares.h"

/* What handles of memory that nobody is charged for say: host memory, multicast objects. */
#define HOOK_SHARE_NOTHING 1ull

/* The key of what is opened by these 64 bytes. */
uint64_t hook_share_key(const void *bytes);

/* One that nobody had before. */
uint64_t hook_share_new_key(void);
