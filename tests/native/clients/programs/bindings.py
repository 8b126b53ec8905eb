"""NVIDIA's cuda-bindings: every way of the driver API to take memory, then a kernel."""

from cuda.bindings import driver as cuda
from routes import MIB, say, try_routes


class Refused(Exception):
    pass


def call(function, *arguments):
    status, *values = function(*arguments)
    if status == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise Refused(status.name)
    assert status == cuda.CUresult.CUDA_SUCCESS, f"{function.__name__}: {status!r}"
    return values[0] if len(values) == 1 else values


call(cuda.cuInit, 0)
device = call(cuda.cuDeviceGet, 0)
context = call(cuda.cuDevicePrimaryCtxRetain, device)
call(cuda.cuCtxSetCurrent, context)
stream = call(cuda.cuStreamCreate, 0)
free_at_first, total = call(cuda.cuMemGetInfo)
say(total_mib=total // MIB, free_mib=free_at_first // MIB)

on_device = cuda.CUmemLocation()
on_device.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
on_device.id = 0
pool_props = cuda.CUmemPoolProps()
pool_props.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
pool_props.location = on_device
pool = call(cuda.cuMemPoolCreate, pool_props)
physical = cuda.CUmemAllocationProp()
physical.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
physical.location = on_device
row = 1 * MIB


def free_async(address):
    call(cuda.cuMemFreeAsync, address, stream)
    call(cuda.cuStreamSynchronize, stream)


def map_memory(size):
    """Create, map and release: the mapping alone holds the memory."""
    handle = call(cuda.cuMemCreate, size, physical, 0)
    address = call(cuda.cuMemAddressReserve, size, 0, 0, 0)
    call(cuda.cuMemMap, address, size, 0, handle, 0)
    call(cuda.cuMemRelease, handle)
    return address, size


def unmap_memory(mapped):
    address, size = mapped
    call(cuda.cuMemUnmap, address, size)
    call(cuda.cuMemAddressFree, address, size)


def array(size):
    shape = cuda.CUDA_ARRAY_DESCRIPTOR()
    shape.Width, shape.Height = 4096, size // (4096 * 16)
    shape.Format, shape.NumChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 4
    return call(cuda.cuArrayCreate, shape)


def mipmap(size):
    shape = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    shape.Width, shape.Height, shape.Depth = 4096, size // (4096 * 16), 0
    shape.Format, shape.NumChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 4
    return call(cuda.cuMipmappedArrayCreate, shape, 1)


def launch_graph(size):
    """A graph that allocates and does not free: its memory is held while it is not freed."""
    graph = call(cuda.cuGraphCreate, 0)
    params = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps, params.bytesize = pool_props, size
    node = call(cuda.cuGraphAddMemAllocNode, graph, None, 0, params)
    executable = call(cuda.cuGraphInstantiate, graph, 0)
    try:
        call(cuda.cuGraphLaunch, executable, stream)
    except Refused:
        call(cuda.cuGraphExecDestroy, executable)
        call(cuda.cuGraphDestroy, graph)
        raise
    address = int(call(cuda.cuGraphMemAllocNodeGetParams, node).dptr)
    return address, executable, graph


def free_graph(launched):
    address, executable, graph = launched
    free_async(address)
    call(cuda.cuGraphExecDestroy, executable)
    call(cuda.cuGraphDestroy, graph)
    call(cuda.cuDeviceGraphMemTrim, device)


def free(address):
    call(cuda.cuMemFree, address)


try_routes(
    {
        "alloc": (lambda size: call(cuda.cuMemAlloc, size), free),
        "pitch": (lambda size: call(cuda.cuMemAllocPitch, row, size // row, 4)[0], free),
        "async": (lambda size: call(cuda.cuMemAllocAsync, size, stream), free_async),
        "pool": (lambda size: call(cuda.cuMemAllocFromPoolAsync, size, pool, stream), free_async),
        "mapped": (map_memory, unmap_memory),
        "array": (array, lambda held: call(cuda.cuArrayDestroy, held)),
        "mipmap": (mipmap, lambda held: call(cuda.cuMipmappedArrayDestroy, held)),
        "graph": (launch_graph, free_graph),
    },
    Refused,
)

module = call(cuda.cuModuleLoadData, b"// no code\0")
kernel = call(cuda.cuModuleGetFunction, module, b"sim_2000000ns")
begin, end = call(cuda.cuEventCreate, 0), call(cuda.cuEventCreate, 0)
call(cuda.cuEventRecord, begin, stream)
call(cuda.cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)
call(cuda.cuEventRecord, end, stream)
call(cuda.cuStreamSynchronize, stream)
say(kernel_ms=call(cuda.cuEventElapsedTime, begin, end))
