/* Plain blocks that were freed in the order of a stream, which has not got there yet (hook_leaving.c). */
#pragma once

#include <stdbool.h>

#include "cuda_subset.h"
#include "ledger.h"

/* The driver took `block`, whose entry was taken out: it stays charged until the stream has got there. */
void hook_leave(const struct ledger_entry *block, CUstream stream, bool is_thread_form);

/* Release what is gone meanwhile; was it any? Costs a load where nothing leaves. */
bool hook_leaving_settle(void);
