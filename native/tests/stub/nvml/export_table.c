/*
 * The private table that nvidia-smi asks for before anything else. It goes on with the public
 * functions where the table's answer that they are not supported; refused the table, it ends.
 */
#include "session.h"

#define SLOTS 512

static nvmlReturn_t not_supported(void)
{
	return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *uuid)
{
	static const void *slots[SLOTS];

	if (!table || !uuid)
		return NVML_ERROR_INVALID_ARGUMENT;
	slots[0] = (const void *)sizeof slots;
	for (size_t i = 1; i < SLOTS; i++)
		slots[i] = (const void *)not_supported;
	*table = slots;
	return NVML_SUCCESS;
}
