/* Part of cuda_api.h. */
#pragma once

#include "cuda_types.h"

SIM_EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function);
SIM_EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction handle);
SIM_EXPORT CUresult cuFuncGetName(const char **name, CUfunction handle);
SIM_EXPORT CUresult cuFuncIsLoaded(int *state, CUfunction function);
SIM_EXPORT CUresult cuFuncLoad(CUfunction function);
SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value);
SIM_EXPORT CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z);
SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, int config);
SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, int config);
SIM_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes);
SIM_EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel,
	CUdevice device);
SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
SIM_EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel);
SIM_EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel);
SIM_EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel,
	CUdevice device);
SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device);
SIM_EXPORT CUresult cuLaunch(CUfunction function);
SIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
	unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,
	unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params);
SIM_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches,
	unsigned int count, unsigned int flags);
SIM_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height);
SIM_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream);
SIM_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data);
SIM_EXPORT CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
	unsigned int mode);
SIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **params, void **extra);
SIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
	void **params, void **extra);
SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
	const char *name);
SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
SIM_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library);
SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library);
SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
	void **jit_values, unsigned int jit_count, int *options, void **values, unsigned int count);
SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit_options,
	void **jit_values, unsigned int jit_count, int *options, void **values, unsigned int count);
SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library);
SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
SIM_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module);
SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
	const char *name);
SIM_EXPORT CUresult cuModuleGetLoadingMode(int *mode);
SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path);
SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image);
SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
	int *options, void **values);
SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image);
SIM_EXPORT CUresult cuModuleUnload(CUmodule module);
SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function,
	int blocks, int threads);
SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
	int threads, size_t shared_bytes);
SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
	CUfunction function, int threads, size_t shared_bytes, unsigned int flags);
SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
	CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit);
SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
	CUfunction function, CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
	unsigned int flags);
SIM_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned int bytes);
SIM_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value);
SIM_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned int value);
SIM_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int bytes);
