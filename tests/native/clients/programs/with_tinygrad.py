"""tinygrad on its CUDA device: buffers, a matrix product that it compiles."""

from routes import UNIT_BYTES, say, try_routes
from tinygrad import Device, Tensor, dtypes
from tinygrad.device import Buffer


def give(buffer):
    buffer.deallocate()
    Device["CUDA"].synchronize()
    Device["CUDA"].allocator.free_cache()


def take(size):
    return Buffer("CUDA", size, dtypes.uint8).allocate()


try_routes({"buffer": (take, give, UNIT_BYTES)}, MemoryError)

product = Tensor.ones(64, 64, device="CUDA") @ Tensor.ones(64, 64, device="CUDA")
say(shape=list(product.numpy().shape))
