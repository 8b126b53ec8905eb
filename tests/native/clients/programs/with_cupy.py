"""CuPy: its pool, plain, managed and array memory, a kernel; to the byte."""

import cupy as cp
import numpy as np
from cupy.cuda import runtime, texture
from routes import MIB, UNIT_BYTES, say, try_routes

ROW_BYTES = 64 << 10
REFUSALS = (cp.cuda.memory.OutOfMemoryError, runtime.CUDARuntimeError)
pool = cp.get_default_memory_pool()


def take_pooled(size):
    return [cp.empty(size, dtype=cp.uint8)]


def give_pooled(only):
    only.clear()  # here it goes back to the pool, and not when the caller is done with it
    pool.free_all_blocks()


def drop(held):
    del held


def take_cuda_array(size):
    kind = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    return texture.CUDAarray(kind, ROW_BYTES // 4, size // ROW_BYTES)


def figures():
    free_bytes, total_bytes = runtime.memGetInfo()
    return {"free_bytes": free_bytes, "total_bytes": total_bytes, "pooled_bytes": pool.used_bytes()}


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
        "pooled array": (take_pooled, give_pooled, UNIT_BYTES),
        "malloc": (runtime.malloc, runtime.free, UNIT_BYTES),
        "cuda array": (take_cuda_array, drop, 8 * ROW_BYTES),
        "managed": (runtime.mallocManaged, runtime.free, UNIT_BYTES),
    },
    REFUSALS,
    figures,
)
doubled = cp.arange(1000, dtype=cp.int32) * 2
say(
    copied_back=cp.asarray(np.arange(1000)).get().tolist() == list(range(1000)),
    shape=list(doubled.shape),
    used_mib=pool.used_bytes() // MIB,
)
