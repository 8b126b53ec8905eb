/* MIG: cards cut into instances, each with its own handle. */
#define _GNU_SOURCE
#include "session.h"

#include <string.h>

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
					       unsigned int *pending)
{
	struct view view;
	nvmlReturn_t result = current && pending ? session_view(device, &view)
						 : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.card.mig_capable && !view.card.mig_enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = *pending = view.card.mig_enabled;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	struct view view;
	nvmlReturn_t result = count ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*count = view.card.mig_capable || view.card.mig_enabled ? 7 : 0;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device,
							      unsigned int index,
							      nvmlDevice_t *ret_device)
{
	struct view view;
	nvmlReturn_t result = ret_device ? session_view(device, &view)
					 : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.card.mig_enabled || index >= view.card.instance_count)
		return NVML_ERROR_NOT_FOUND;
	nvmlDevice_t found = session_handle(view.card.instances[index].uuid);

	if (!found)
		return NVML_ERROR_MEMORY;
	*ret_device = found;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
								       nvmlDevice_t *device)
{
	struct view view;
	nvmlReturn_t result = device ? session_view(instance, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.is_instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = session_handle(view.card.uuid);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_instance)
{
	struct view view;
	nvmlReturn_t result = is_instance ? session_view(device, &view)
					  : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*is_instance = view.is_instance;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	struct view view;
	nvmlReturn_t result = id ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.is_instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	*id = view.instance.gpu_instance;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	struct view view;
	nvmlReturn_t result = id ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.is_instance)
		return NVML_ERROR_INVALID_ARGUMENT;
	*id = view.instance.compute_instance;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device,
						     nvmlDeviceAttributes_t *attributes)
{
	struct view view;
	nvmlReturn_t result = attributes ? session_view(device, &view)
					 : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (!view.is_instance)
		return NVML_ERROR_NOT_SUPPORTED;
	unsigned int slices = (unsigned int)(view.instance.profile[0] - '0'); /* "3g.40gb" */

	memset(attributes, 0, sizeof *attributes);
	attributes->gpuInstanceSliceCount = attributes->computeInstanceSliceCount = slices;
	attributes->multiprocessorCount = view.card.multiprocessors * slices / 8;
	attributes->sharedCopyEngineCount = 1;
	attributes->memorySizeMB = view.instance.memory_mib;
	return NVML_SUCCESS;
}
