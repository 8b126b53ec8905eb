#include "errors.h"

#include <errno.h>

CUresult cu_from_errno(int error)
{
	switch (-error) {
	case 0:
		return CUDA_SUCCESS;
	case ENOMEM: /* the limit, or no memory of our own to count with */
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EPERM: /* the pages cannot be trusted, or not be written */
		return CUDA_ERROR_NOT_PERMITTED;
	case EINVAL:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

nvmlReturn_t nvml_from_errno(int error)
{
	switch (-error) {
	case 0:
		return NVML_SUCCESS;
	case EPERM:
		return NVML_ERROR_NO_PERMISSION;
	case EINVAL:
		return NVML_ERROR_INVALID_ARGUMENT;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}
