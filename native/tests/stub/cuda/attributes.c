/* What devices can do, and what they are to each other. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define ATTRIBUTES 160

/* Those that clients branch on; all others are zero. */
static void fill(const struct sim_device *device, int values[ATTRIBUTES])
{
	const int known[ATTRIBUTES] = {
		[1] = 1024, /* threads per block, and its three dimensions */
		[2] = 1024,
		[3] = 1024,
		[4] = 64,
		[5] = 0x7fffffff, /* the grid's three dimensions */
		[6] = 65535,
		[7] = 65535,
		[8] = 49152,      /* shared memory per block */
		[9] = 65536,      /* constant memory */
		[10] = 32,        /* warp size */
		[11] = 0x7fffffff, /* pitch */
		[12] = 65536,     /* registers per block */
		[13] = 1410000,   /* clock, kHz */
		[14] = 512,       /* texture alignment */
		[15] = 1,         /* copies beside kernels */
		[16] = (int)device->multiprocessors,
		[19] = 1, /* maps host memory */
		[31] = 1, /* concurrent kernels */
		[33] = (int)device->pci_bus,
		[34] = (int)device->pci_device,
		[36] = 1215000,  /* memory clock, kHz */
		[37] = 5120,     /* memory bus, bits */
		[38] = 41943040, /* L2, bytes */
		[39] = 2048,     /* threads per multiprocessor */
		[40] = 3,        /* copy engines */
		[41] = 1,        /* unified addressing */
		[50] = (int)device->pci_domain,
		[51] = 32, /* texture pitch alignment */
		[75] = (int)device->cc_major,
		[76] = (int)device->cc_minor,
		[78] = 1,      /* stream priorities */
		[81] = 167936, /* shared memory per multiprocessor */
		[82] = 65536,  /* registers per multiprocessor */
		[83] = 1,      /* managed memory */
		[89] = 1,      /* managed memory at the same time as the host */
		[90] = 1,      /* preemption */
		[91] = 1,      /* host pointers registered are the same here */
		[95] = 1,      /* cooperative launch */
		[96] = 1,
		[97] = 166912, /* shared memory per block, on request */
		[102] = 1,     /* memory in two steps */
		[103] = 1,     /* and by file descriptor */
		[106] = 32,    /* blocks per multiprocessor */
		[111] = 1024,  /* shared memory that the driver keeps per block */
		[115] = 1,     /* memory pools */
		[118] = 1,     /* bits of what pools are exported as */
		[119] = 1,
		[121] = 1,
		[132] = device->cc_major >= 9, /* multicast */
	};

	memcpy(values, known, sizeof known);
}

static CUresult look_up(CUdevice ordinal, const void *result, const struct sim_device **ret_device)
{
	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = sim_device(ordinal);
	return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice ordinal)
{
	const struct sim_device *device;
	int values[ATTRIBUTES];

	SIM_ENTER();
	CUresult cr = look_up(ordinal, value, &device);

	if (cr != CUDA_SUCCESS)
		return cr;
	if (attribute <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	fill(device, values);
	*value = attribute < ATTRIBUTES ? values[attribute] : 0;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal)
{
	const struct sim_device *device;

	SIM_ENTER();
	CUresult cr = look_up(ordinal, major && minor ? major : NULL, &device);

	if (cr == CUDA_SUCCESS) {
		*major = (int)device->cc_major;
		*minor = (int)device->cc_minor;
	}
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *found, const char *bus_id)
{
	unsigned int domain = 0, bus, device;

	SIM_ENTER();
	if (!found || !bus_id)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) {
		domain = 0;
		if (sscanf(bus_id, "%x:%x", &bus, &device) != 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < sim_device_count(); i++) {
		const struct sim_device *at = sim_device(i);

		if (at->pci_domain == domain && at->pci_bus == bus && at->pci_device == device) {
			*found = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer)
{
	const struct sim_device *device, *other;

	SIM_ENTER();
	CUresult cr = look_up(ordinal, can, &device);

	if (cr == CUDA_SUCCESS)
		cr = look_up(peer, can, &other);
	if (cr == CUDA_SUCCESS)
		*can = ordinal != peer && !device->is_mig && !other->is_mig;
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice ordinal,
					    CUdevice peer)
{
	const struct sim_device *device, *other;

	SIM_ENTER();
	CUresult cr = look_up(ordinal, value, &device);

	if (cr == CUDA_SUCCESS)
		cr = look_up(peer, value, &other);
	if (cr == CUDA_SUCCESS && (ordinal == peer || attribute < 1 || attribute > 5))
		cr = CUDA_ERROR_INVALID_VALUE;
	if (cr == CUDA_SUCCESS)
		*value = attribute != 1 && !device->is_mig && !other->is_mig;
	return cr;
}

SIM_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format,
						       unsigned int channels, CUdevice ordinal)
{
	const struct sim_device *device;

	(void)format, (void)channels;
	SIM_ENTER();
	CUresult cr = look_up(ordinal, width, &device);

	if (cr == CUDA_SUCCESS)
		*width = 1 << 28;
	return cr;
}

SIM_EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	(void)target, (void)scope;
	SIM_ENTER();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuProfilerStart(void)
{
	SIM_ENTER();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuProfilerStop(void)
{
	SIM_ENTER();
	return CUDA_SUCCESS;
}
