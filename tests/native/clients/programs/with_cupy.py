"""CuPy on the CUDA runtime 10.2: its pool, plain, managed and array memory, a kernel; to the byte."""

import cupy as cp
import numpy as np
from cupy.cuda import runtime, texture
from routes import MIB, say, try_routes

UNIT_BYTES = 512
REFUSALS = (cp.cuda.memory.OutOfMemoryError, runtime.CUDARuntimeError)
pool = cp.get_default_memory_pool()


def give_pooled(array):
    del array
    pool.free_all_blocks()


def drop(held):
    del held


def take_cuda_array(size):
    kind = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    return texture.CUDAarray(kind, 16384, size // 65536)


def largest(at_most):
    """The largest block that cudaMalloc gives, in bytes; every smaller one it gives, too."""
    least, most = 0, at_most // UNIT_BYTES
    while least < most:
        middle = (least + most + 1) // 2
        try:
            runtime.free(runtime.malloc(middle * UNIT_BYTES))
            least = middle
        except REFUSALS:
            most = middle - 1
    return least * UNIT_BYTES


free, total = runtime.memGetInfo()
say(total_mib=total // MIB)
say(free_less_largest=free - largest(free))
try_routes(
    {
        "pooled array": (lambda size: cp.empty(size, dtype=cp.uint8), give_pooled),
        "malloc": (runtime.malloc, runtime.free),
        "cuda array": (take_cuda_array, drop),
        "managed": (runtime.mallocManaged, runtime.free),
    },
    REFUSALS,
)
doubled = cp.arange(1000, dtype=cp.int32) * 2
say(
    copied_back=cp.asarray(np.arange(1000)).get().tolist() == list(range(1000)),
    shape=list(doubled.shape),
    used_mib=pool.used_bytes() // MIB,
)
