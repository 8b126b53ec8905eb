/* Start, stop, versions and error texts. */
#define _GNU_SOURCE
#include "session.h"

#include <stdio.h>
#include <string.h>

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	(void)flags; /* "no GPUs is fine" holds anyway; "do not attach" has no meaning here */
	return session_begin();
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return session_begin();
}

NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	return session_begin();
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return session_end();
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT:
		return "Timeout";
	case NVML_ERROR_GPU_IS_LOST:
		return "GPU is lost";
	case NVML_ERROR_RESET_REQUIRED:
		return "GPU requires reset";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
		return "Driver/library version mismatch";
	case NVML_ERROR_MEMORY:
		return "Insufficient Memory";
	case NVML_ERROR_INSUFFICIENT_RESOURCES:
		return "Insufficient Resources";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument version mismatch";
	default:
		return "Unknown Error";
	}
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	struct profile profile;
	nvmlReturn_t result = session_profile(&profile);

	return result == NVML_SUCCESS ? session_give_text(profile.driver_version, version, length) : result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	struct profile profile;
	char text[96];
	nvmlReturn_t result = session_profile(&profile);

	if (result != NVML_SUCCESS)
		return result;
	snprintf(text, sizeof text, "%d.%s", profile.cuda_version / 1000, profile.driver_version);
	return session_give_text(text, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	struct profile profile;
	nvmlReturn_t result = session_profile(&profile);

	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*version = profile.cuda_version;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[64], text[256];

	snprintf(path, sizeof path, "/proc/%u/comm", pid);
	FILE *file = fopen(path, "re");

	if (!file)
		return NVML_ERROR_NOT_FOUND;
	if (!fgets(text, sizeof text, file))
		text[0] = '\0';
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return session_give_text(text, name, length);
}
