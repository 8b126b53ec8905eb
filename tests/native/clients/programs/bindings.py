"""NVIDIA's cuda-bindings: every way of the driver API to take memory, then a kernel."""

import os

from cuda.bindings import driver as cuda
from routes import CHUNK_BYTES, MIB, UNIT_BYTES, say, try_routes


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
narrow_row = 100  # of which each takes a whole unit
layer = 64 << 10  # of arrays
grain = 2 * MIB  # of memory with handles


def figures():
    free_bytes, total_bytes = call(cuda.cuMemGetInfo)
    return {"free_bytes": free_bytes, "total_bytes": total_bytes}


def free_async(address):
    call(cuda.cuMemFreeAsync, address, stream)
    call(cuda.cuStreamSynchronize, stream)


def hold_memory(size):
    return call(cuda.cuMemCreate, size, physical, 0)


def map_memory(size):
    """Create, map and release: the mapping alone holds the memory."""
    handle = hold_memory(size)
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
    shape.Width, shape.Height = 512, size // (512 * 16)
    shape.Format, shape.NumChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 4
    return call(cuda.cuArrayCreate, shape)


def deep_array(size):
    shape = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    shape.Width, shape.Height, shape.Depth = 64, 64, size // layer
    shape.Format, shape.NumChannels = cuda.CUarray_format.CU_AD_FORMAT_FLOAT, 4
    return call(cuda.cuArray3DCreate, shape)


def mipmap(size):
    shape = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    shape.Width, shape.Height, shape.Depth = 512, size // (512 * 16), 0
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


def import_memory(size):
    """What another API made, by a descriptor that is the driver's once it took it."""
    of_other = cuda.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
    of_other.type = cuda.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
    of_other.handle.fd, of_other.size = os.open("/dev/zero", os.O_RDONLY), size
    try:
        return call(cuda.cuImportExternalMemory, of_other)
    except Refused:
        os.close(of_other.handle.fd)
        raise


def managed(size):
    flags = cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    return call(cuda.cuMemAllocManaged, size, flags)


def pitched(size):
    return call(cuda.cuMemAllocPitch, narrow_row, size // UNIT_BYTES, 4)[0]


def from_pool(size):
    return call(cuda.cuMemAllocFromPoolAsync, size, pool, stream)


try_routes(
    {
        "alloc": (lambda size: call(cuda.cuMemAlloc, size), free, UNIT_BYTES),
        "managed": (managed, free, UNIT_BYTES),
        "pitch": (pitched, free, UNIT_BYTES),
        "async": (lambda size: call(cuda.cuMemAllocAsync, size, stream), free_async, CHUNK_BYTES),
        "pool": (from_pool, free_async, CHUNK_BYTES),
        "handle": (hold_memory, lambda held: call(cuda.cuMemRelease, held), grain),
        "mapped": (map_memory, unmap_memory, grain),
        "array": (array, lambda held: call(cuda.cuArrayDestroy, held), layer),
        "array3d": (deep_array, lambda held: call(cuda.cuArrayDestroy, held), layer),
        "mipmap": (mipmap, lambda held: call(cuda.cuMipmappedArrayDestroy, held), layer),
        "external": (import_memory, lambda held: call(cuda.cuDestroyExternalMemory, held), layer),
        "graph": (launch_graph, free_graph, grain),
    },
    Refused,
    figures,
)

module = call(cuda.cuModuleLoadData, b"// no code\0")
kernel = call(cuda.cuModuleGetFunction, module, b"sim_2000000ns")
begin, end = call(cuda.cuEventCreate, 0), call(cuda.cuEventCreate, 0)
call(cuda.cuEventRecord, begin, stream)
call(cuda.cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)
call(cuda.cuEventRecord, end, stream)
call(cuda.cuStreamSynchronize, stream)
say(kernel_ms=call(cuda.cuEventElapsedTime, begin, end))
