/* What is asked of streams. */
#include "stream.h"

#include <string.h>

#define RESOLVE(handle, stream) \
	do { \
		CUresult resolved_ = sim_enter(__func__); \
		if (resolved_ == CUDA_SUCCESS) \
			resolved_ = stream_resolve(handle, &(stream)); \
		if (resolved_ != CUDA_SUCCESS) \
			return resolved_; \
	} while (0)

SIM_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = stream->id;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = stream->object.context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, void **green)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = stream->object.context;
	if (green)
		*green = NULL;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = stream->object.context->device;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
	CUstream stream;

	RESOLVE(to, stream);
	return stream_check(from);
}

/* Only the priority (8) is told; no attribute changes anything. */
SIM_EXPORT CUresult cuStreamGetAttribute(CUstream handle, int attribute, void *value)
{
	CUstream stream;

	RESOLVE(handle, stream);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	memset(value, 0, 64);
	if (attribute == 8)
		memcpy(value, &stream->priority, sizeof stream->priority);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamSetAttribute(CUstream handle, int attribute, const void *value)
{
	CUstream stream;

	(void)attribute;
	RESOLVE(handle, stream);
	return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
