/* What is opened with RTLD_DEEPBIND: it tells whose `dlsym` it sees. */
#include <dlfcn.h>
#include <string.h>

#include "cuda_api.h"

const char *deep_sees(void);

SIM_EXPORT const char *deep_sees(void)
{
	Dl_info info;
	void *own_dlsym = (void *)dlsym;
	return dladdr(own_dlsym, &info) && strstr(info.dli_fname, "libhamid") ? "ours" : "libc's";
}
