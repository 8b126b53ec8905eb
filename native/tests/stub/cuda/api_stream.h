/* Part of cuda_api.h. */
#pragma once

#include "cuda_types.h"

SIM_EXPORT CUresult cuCtxSynchronize(void);
SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext of);
SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value);
SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device);
SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value);
SIM_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags);
SIM_EXPORT CUresult cuEventDestroy(CUevent event);
SIM_EXPORT CUresult cuEventDestroy_v2(CUevent event);
SIM_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
SIM_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);
SIM_EXPORT CUresult cuEventQuery(CUevent event);
SIM_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream);
SIM_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);
SIM_EXPORT CUresult cuEventSynchronize(CUevent event);
SIM_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, CUgraph child);
SIM_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
	const CUgraphNode *to, size_t count);
SIM_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
	const CUgraphNode *to, const void *edges, size_t count);
SIM_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count);
SIM_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, CUevent event);
SIM_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, CUevent event);
SIM_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t count, const CUDA_HOST_NODE_PARAMS *host);
SIM_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, CUdeviceptr address);
SIM_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, const CUDA_MEMCPY3D *copy, CUcontext context);
SIM_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
	const CUgraphNode *after, size_t count, const CUDA_MEMSET_NODE_PARAMS *fill,
	CUcontext context);
SIM_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t count, CUgraphNodeParams *params);
SIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	const void *edges, size_t count, CUgraphNodeParams *params);
SIM_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	const void *edges, size_t count, CUgraphNodeParams *params);
SIM_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child);
SIM_EXPORT CUresult cuGraphClone(CUgraph *copy, CUgraph graph);
SIM_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph);
SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node);
SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec);
SIM_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags);
SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode original,
	const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode original,
	const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad,
	int *result);
SIM_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *info);
SIM_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
	size_t *count);
SIM_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
	void *edges, size_t *count);
SIM_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
	char *log, size_t log_bytes);
SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
	unsigned long long flags);
SIM_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
	CUDA_GRAPH_INSTANTIATE_PARAMS *params);
SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
	char *log, size_t log_bytes);
SIM_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node,
	CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
	const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
	const CUDA_KERNEL_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle);
SIM_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node,
	CUDA_MEM_ALLOC_NODE_PARAMS *params);
SIM_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address);
SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph copy);
SIM_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count);
SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes,
	void *edges, size_t *count);
SIM_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode original,
	unsigned int *enabled);
SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int *type);
SIM_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode original,
	unsigned int enabled);
SIM_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle);
SIM_EXPORT CUresult cuStreamBeginCapture(CUstream stream);
SIM_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
	const CUgraphNode *after, const void *edges, size_t count, int mode);
SIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
SIM_EXPORT CUresult cuStreamCopyAttributes(CUstream to, CUstream from);
SIM_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
SIM_EXPORT CUresult cuStreamDestroy(CUstream stream);
SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream);
SIM_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph);
SIM_EXPORT CUresult cuStreamGetAttribute(CUstream handle, int attribute, void *value);
SIM_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, cuuint64_t *id);
SIM_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id,
	CUgraph *graph, const CUgraphNode **heads, size_t *count);
SIM_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, cuuint64_t *id,
	CUgraph *graph, const CUgraphNode **heads, const void **edges, size_t *count);
SIM_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context);
SIM_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, void **green);
SIM_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device);
SIM_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags);
SIM_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id);
SIM_EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority);
SIM_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status);
SIM_EXPORT CUresult cuStreamQuery(CUstream handle);
SIM_EXPORT CUresult cuStreamSetAttribute(CUstream handle, int attribute, const void *value);
SIM_EXPORT CUresult cuStreamSynchronize(CUstream handle);
SIM_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags);
SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode);
