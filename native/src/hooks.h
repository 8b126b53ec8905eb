/*
 * The hooks' prototypes, made of hooks.def. Each is named as the driver's symbol that it stands
 * for.
 */
#pragma once

#include "cuda_subset.h"
#include "nvml_subset.h"

#define HOOK_EXPORT __attribute__((visibility("default")))

#define HOOK(library, result, symbol, class, name, version, stream, params) \
	HOOK_EXPORT result symbol params;
#include "hooks.def"
#undef HOOK
