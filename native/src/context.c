#include "context.h"

#include <stdio.h>

#include "real.h"

CUresult context_uuid(CUdevice device, char ret_uuid[HAMID_UUID_BYTES])
{
	CUuuid uuid;
	CUresult cr;
	/* The first version names the card even where the device is an instance of it (MIG). */
	if (real.cuDeviceGetUuid_v2)
		cr = real.cuDeviceGetUuid_v2(&uuid, device);
	else if (real.cuDeviceGetUuid)
		cr = real.cuDeviceGetUuid(&uuid, device);
	else
		cr = CUDA_ERROR_NOT_SUPPORTED; /* drivers before 9.2 */
	if (cr != CUDA_SUCCESS)
		return cr;

	const unsigned char *b = (const unsigned char *)uuid.bytes;
	snprintf(ret_uuid, HAMID_UUID_BYTES,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
	return CUDA_SUCCESS;
}

CUresult context_current_uuid(char ret_uuid[HAMID_UUID_BYTES])
{
	CUdevice device;
	if (!real.cuCtxGetDevice)
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult cr = real.cuCtxGetDevice(&device);
	return cr == CUDA_SUCCESS ? context_uuid(device, ret_uuid) : cr;
}
