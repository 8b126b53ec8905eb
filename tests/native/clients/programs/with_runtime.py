"""The CUDA runtime that is inside cuda-bindings. From CUDA 12 on it authenticates the driver, so it works on real ones only."""

import os

from cuda.bindings import runtime
from routes import CHUNK_BYTES, MIB, UNIT_BYTES, say, try_routes


class Refused(Exception):
    pass


def call(function, *arguments):
    status, *values = function(*arguments)
    if status == runtime.cudaError_t.cudaErrorMemoryAllocation:
        runtime.cudaGetLastError()
        raise Refused(status.name)
    assert status == runtime.cudaError_t.cudaSuccess, f"{function.__name__}: {status!r}"
    return values[0] if len(values) == 1 else values


status, *_ = runtime.cudaFree(0)
say(start=status.name)
if status != runtime.cudaError_t.cudaSuccess:
    os._exit(0)  # its clean-up falls over a driver that it refused
free, total = call(runtime.cudaMemGetInfo)
say(total_mib=total // MIB, free_mib=free // MIB)
stream = call(runtime.cudaStreamCreate)


def free(address):
    call(runtime.cudaFree, address)


def free_async(address):
    call(runtime.cudaFreeAsync, address, stream)
    call(runtime.cudaStreamSynchronize, stream)


try_routes(
    {
        "alloc": (lambda size: call(runtime.cudaMalloc, size), free, UNIT_BYTES),
        "pitch": (lambda size: call(runtime.cudaMallocPitch, MIB, size // MIB)[0], free, MIB),
        "async": (
            lambda size: call(runtime.cudaMallocAsync, size, stream),
            free_async,
            CHUNK_BYTES,
        ),
    },
    Refused,
)
