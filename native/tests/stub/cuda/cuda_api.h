/*
 * The driver API as test programs call it: prototypes with the types of the public header. Enum-typed
 * parameters are ints, as everywhere here.
 */
#pragma once

#include "cuda_types.h"

#include "api_device.h"
#include "api_memory.h"
#include "api_code.h"
#include "api_stream.h"
