/*
 * A small tenant: allocates device memory and says, one JSON line a call, what came of it.
 *
 *   alloc_mib [--via dlsym|procaddress|link] [--abi 2|1] [--device N] [--hold] [--interactive] MIB...
 *
 * Each MIB is allocated and kept; then the card's memory is asked for in every way. --hold stays
 * until SIGTERM. --interactive reads further commands from stdin until it ends: `alloc MIB`,
 * `bytes COUNT`, `free` (the last block), `info`, `null` (cuMemGetInfo with a NULL pointer), `junk`
 * (frees what was never allocated).
 *
 * Found by dlopen("libcuda.so.1"), so that it needs nothing to start; --via link runs alloc_mib_linked
 * beside it, which is this source linked to the driver.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_api.h"
#include "nvml_subset.h"

#define BLOCKS_MAX 4096

static struct {
	CUresult (*cuInit)(unsigned int);
	CUresult (*cuDeviceGet)(CUdevice *, int);
	CUresult (*cuDeviceGetUuid)(CUuuid *, CUdevice);
	CUresult (*cuDeviceTotalMem)(size_t *, CUdevice);
	CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
	CUresult (*cuCtxSetCurrent)(CUcontext);
	CUresult (*cuMemAlloc)(CUdeviceptr *, size_t);
	CUresult (*cuMemFree)(CUdeviceptr);
	CUresult (*cuMemGetInfo)(size_t *, size_t *);
	CUresult (*cuMemAlloc_v1)(CUdeviceptr_v1 *, unsigned int);
	CUresult (*cuMemFree_v1)(CUdeviceptr_v1);
	CUresult (*cuMemGetInfo_v1)(unsigned int *, unsigned int *);
	CUresult (*cuDeviceTotalMem_v1)(unsigned int *, CUdevice);
	CUresult (*cuGetErrorName)(CUresult, const char **);
} cu;

static const struct {
	void *to;
	const char *name;   /* as cuGetProcAddress takes it */
	int version;
	const char *symbol; /* as dlsym takes it */
} wanted[] = {
	{&cu.cuInit, "cuInit", 2000, "cuInit"},
	{&cu.cuDeviceGet, "cuDeviceGet", 2000, "cuDeviceGet"},
	{&cu.cuDeviceGetUuid, "cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
	{&cu.cuDeviceTotalMem, "cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2"},
	{&cu.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain"},
	{&cu.cuCtxSetCurrent, "cuCtxSetCurrent", 4000, "cuCtxSetCurrent"},
	{&cu.cuMemAlloc, "cuMemAlloc", 3020, "cuMemAlloc_v2"},
	{&cu.cuMemFree, "cuMemFree", 3020, "cuMemFree_v2"},
	{&cu.cuMemGetInfo, "cuMemGetInfo", 3020, "cuMemGetInfo_v2"},
	{&cu.cuMemAlloc_v1, "cuMemAlloc", 2000, "cuMemAlloc"},
	{&cu.cuMemFree_v1, "cuMemFree", 2000, "cuMemFree"},
	{&cu.cuMemGetInfo_v1, "cuMemGetInfo", 2000, "cuMemGetInfo"},
	{&cu.cuDeviceTotalMem_v1, "cuDeviceTotalMem", 2000, "cuDeviceTotalMem"},
	{&cu.cuGetErrorName, "cuGetErrorName", 6000, "cuGetErrorName"},
};

static CUdevice device;
static CUdeviceptr blocks[BLOCKS_MAX];
static size_t block_count;
static int abi = 2;

static void give_up(const char *what, const char *why)
{
	fprintf(stderr, "alloc_mib: %s: %s\n", what, why ? why : "not found");
	exit(2);
}

static void put(size_t i, void *function)
{
	if (!function)
		give_up(wanted[i].symbol, NULL);
	memcpy(wanted[i].to, &function, sizeof function);
}

#ifdef LINKED
static void find_functions(const char *via)
{
	(void)via;
	void *const functions[] = {
		(void *)cuInit, (void *)cuDeviceGet, (void *)cuDeviceGetUuid_v2,
		(void *)cuDeviceTotalMem_v2, (void *)cuDevicePrimaryCtxRetain,
		(void *)cuCtxSetCurrent, (void *)cuMemAlloc_v2, (void *)cuMemFree_v2,
		(void *)cuMemGetInfo_v2, (void *)cuMemAlloc, (void *)cuMemFree,
		(void *)cuMemGetInfo, (void *)cuDeviceTotalMem, (void *)cuGetErrorName,
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		put(i, functions[i]);
}
#else
static void find_functions(const char *via)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		give_up("libcuda.so.1", dlerror());
	bool by_version = strcmp(via, "procaddress") == 0 || strcmp(via, "procaddress1") == 0;
	CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*ask1)(const char *, void **, int, cuuint64_t);
	void *found = dlsym(driver, "cuGetProcAddress_v2");
	memcpy(&ask, &found, sizeof found);
	found = dlsym(driver, "cuGetProcAddress");
	memcpy(&ask1, &found, sizeof found);
	if (by_version && !(ask && ask1))
		give_up("cuGetProcAddress_v2", NULL);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		found = NULL;
		CUdriverProcAddressQueryResult status;
		if (!by_version)
			found = dlsym(driver, wanted[i].symbol);
		else if (strcmp(via, "procaddress1") == 0)
			ask1(wanted[i].name, &found, wanted[i].version, 0);
		else if (ask(wanted[i].name, &found, wanted[i].version, 0, &status) == CUDA_SUCCESS &&
			 status != CU_GET_PROC_ADDRESS_SUCCESS)
			give_up(wanted[i].name, "wrong status");
		put(i, found);
	}
}
#endif

static const char *name_of(CUresult cr)
{
	const char *name = NULL;
	static char number[32];
	if (cu.cuGetErrorName(cr, &name) == CUDA_SUCCESS && name)
		return name;
	snprintf(number, sizeof number, "%d", (int)cr);
	return number;
}

static void begin(int ordinal)
{
	CUcontext context;
	CUresult cr = cu.cuInit(0);
	const char *call = "cuInit";
	if (cr == CUDA_SUCCESS) {
		call = "cuDeviceGet";
		cr = cu.cuDeviceGet(&device, ordinal);
	}
	if (cr == CUDA_SUCCESS) {
		call = "cuDevicePrimaryCtxRetain";
		cr = cu.cuDevicePrimaryCtxRetain(&context, device);
	}
	if (cr == CUDA_SUCCESS)
		cr = cu.cuCtxSetCurrent(context);
	if (cr == CUDA_SUCCESS)
		return;
	printf("{\"call\": \"%s\", \"result\": \"%s\"}\n", call, name_of(cr));
	exit(1);
}

static CUresult take(uint64_t bytes)
{
	CUdeviceptr address = 0;
	CUdeviceptr_v1 address_v1 = 0;
	CUresult cr = abi == 1 ? cu.cuMemAlloc_v1(&address_v1, (unsigned int)bytes) :
				 cu.cuMemAlloc(&address, bytes);
	if (cr == CUDA_SUCCESS && block_count < BLOCKS_MAX)
		blocks[block_count++] = abi == 1 ? address_v1 : address;
	return cr;
}

static void say_take(uint64_t bytes)
{
	printf("{\"call\": \"cuMemAlloc\", \"mib\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"result\": \"%s\"}\n",
	       bytes >> 20, bytes, name_of(take(bytes)));
}

static void say_free(CUdeviceptr address)
{
	CUresult cr = abi == 1 ? cu.cuMemFree_v1((CUdeviceptr_v1)address) : cu.cuMemFree(address);
	printf("{\"call\": \"cuMemFree\", \"result\": \"%s\"}\n", name_of(cr));
}

static void say_figures(const char *call, const char *result, uint64_t total, uint64_t free_bytes)
{
	printf("{\"call\": \"%s\", \"result\": \"%s\", \"total_mib\": %" PRIu64 ", \"free_mib\": %" PRIu64
	       ", \"total_bytes\": %" PRIu64 ", \"free_bytes\": %" PRIu64 "}\n",
	       call, result, total >> 20, free_bytes >> 20, total, free_bytes);
}

static void say_cuda_info(void)
{
	size_t free_bytes = 0, total = 0;
	unsigned int free_v1 = 0, total_v1 = 0;
	CUresult cr = abi == 1 ? cu.cuMemGetInfo_v1(&free_v1, &total_v1) :
				 cu.cuMemGetInfo(&free_bytes, &total);
	if (abi == 1)
		say_figures("cuMemGetInfo", name_of(cr), total_v1, free_v1);
	else
		say_figures("cuMemGetInfo", name_of(cr), total, free_bytes);
	cr = abi == 1 ? cu.cuDeviceTotalMem_v1(&total_v1, device) : cu.cuDeviceTotalMem(&total, device);
	say_figures("cuDeviceTotalMem", name_of(cr), abi == 1 ? total_v1 : total, 0);
}

/* In the form that NVML takes. */
static void uuid_text(const char *prefix, char *ret_text, size_t length)
{
	CUuuid uuid;
	if (cu.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
		give_up("cuDeviceGetUuid", "failed");
	int at = snprintf(ret_text, length, "%s", prefix);
	for (int i = 0; i < 16; i++)
		at += snprintf(ret_text + at, length - (size_t)at, "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)uuid.bytes[i]);
}

static void say_nvml_figures(const char *call, nvmlReturn_t nr, const nvmlMemory_t *memory)
{
	printf("{\"call\": \"%s\", \"result\": %d, \"total_mib\": %llu, \"free_mib\": %llu, "
	       "\"used_mib\": %llu, \"total_bytes\": %llu}\n",
	       call, (int)nr, memory->total >> 20, memory->free >> 20, memory->used >> 20,
	       memory->total);
}

static void say_nvml_info(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!nvml)
		return;
	nvmlReturn_t (*init)(void) = (nvmlReturn_t(*)(void))dlsym(nvml, "nvmlInit_v2");
	nvmlReturn_t (*by_uuid)(const char *, nvmlDevice_t *) =
		(nvmlReturn_t(*)(const char *, nvmlDevice_t *))dlsym(nvml, "nvmlDeviceGetHandleByUUID");
	nvmlReturn_t (*info)(nvmlDevice_t, nvmlMemory_t *) =
		(nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_t *))dlsym(nvml, "nvmlDeviceGetMemoryInfo");
	nvmlReturn_t (*info_v2)(nvmlDevice_t, nvmlMemory_v2_t *) =
		(nvmlReturn_t(*)(nvmlDevice_t, nvmlMemory_v2_t *))dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2");
	if (!init || !by_uuid || !info)
		give_up("libnvidia-ml.so.1", "lacks functions");

	char uuid[64];
	nvmlDevice_t handle;
	nvmlMemory_t memory = {0};
	nvmlReturn_t nr = init();
	uuid_text("GPU-", uuid, sizeof uuid);
	if (nr == NVML_SUCCESS && by_uuid(uuid, &handle) != NVML_SUCCESS) {
		uuid_text("MIG-", uuid, sizeof uuid);
		nr = by_uuid(uuid, &handle);
	}
	if (nr == NVML_SUCCESS)
		nr = info(handle, &memory);
	say_nvml_figures("nvmlDeviceGetMemoryInfo", nr, &memory);
	if (nr != NVML_SUCCESS || !info_v2)
		return;
	nvmlMemory_v2_t memory_v2 = {.version = (unsigned int)sizeof memory_v2 | 2u << 24};
	nr = info_v2(handle, &memory_v2);
	memory = (nvmlMemory_t){memory_v2.total, memory_v2.free, memory_v2.used};
	say_nvml_figures("nvmlDeviceGetMemoryInfo_v2", nr, &memory);
}

static void say_null(void)
{
	size_t total = 0;
	CUresult cr = cu.cuMemGetInfo(NULL, &total);
	say_figures("cuMemGetInfo", name_of(cr), total, 0);
}

static void obey(const char *line)
{
	uint64_t number;
	if (sscanf(line, "alloc %" SCNu64, &number) == 1)
		say_take(number << 20);
	else if (sscanf(line, "bytes %" SCNu64, &number) == 1)
		say_take(number);
	else if (strncmp(line, "free", 4) == 0)
		say_free(block_count ? blocks[--block_count] : 0);
	else if (strncmp(line, "junk", 4) == 0)
		say_free(0x1234);
	else if (strncmp(line, "null", 4) == 0)
		say_null();
	else if (strncmp(line, "info", 4) == 0) {
		say_cuda_info();
		say_nvml_info();
	}
	printf("{\"call\": \"done\"}\n");
}

/* A handler, for as process 1 of a container the default would be to ignore it. */
static void leave(int signal)
{
	(void)signal;
	_exit(0);
}

static void run_linked(char **argv)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
	if (length <= 0)
		give_up("/proc/self/exe", "cannot be read");
	snprintf(path + length, sizeof path - (size_t)length, "_linked");
	execv(path, argv);
	give_up(path, "cannot be run");
}

int main(int argc, char **argv)
{
	const char *via = "dlsym";
	int ordinal = 0, i = 1;
	bool hold = false, interactive = false, linked = false;
#ifdef LINKED
	linked = true;
#endif
	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--hold") == 0)
			hold = true;
		else if (strcmp(argv[i], "--interactive") == 0)
			interactive = true;
		else if (strcmp(argv[i], "--via") == 0 && i + 1 < argc)
			via = argv[++i];
		else if (strcmp(argv[i], "--abi") == 0 && i + 1 < argc)
			abi = atoi(argv[++i]);
		else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
			ordinal = atoi(argv[++i]);
		else
			give_up(argv[i], "no such option");
	}
	if (strcmp(via, "link") == 0 && !linked)
		run_linked(argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	find_functions(via);
	begin(ordinal);
	for (; i < argc; i++)
		say_take(strtoull(argv[i], NULL, 10) << 20);
	say_cuda_info();
	say_nvml_info();
	if (interactive) {
		char line[256];
		printf("{\"call\": \"ready\"}\n");
		while (fgets(line, sizeof line, stdin))
			obey(line);
	}
	if (hold) {
		signal(SIGTERM, leave);
		signal(SIGINT, leave);
		printf("{\"call\": \"hold\"}\n");
		for (;;)
			pause();
	}
	return 0;
}
