"""tinygrad on its CUDA device: buffers, a matrix product that it compiles."""

from routes import say, try_routes
from tinygrad import Device, Tensor, dtypes
from tinygrad.device import Buffer


def give(buffer):
    buffer.deallocate()
    Device["CUDA"].synchronize()
    Device["CUDA"].allocator.free_cache()


try_routes(
    {"buffer": (lambda size: Buffer("CUDA", size, dtypes.uint8).allocate(), give)}, MemoryError
)

product = Tensor.ones(64, 64, device="CUDA") @ Tensor.ones(64, 64, device="CUDA")
say(shape=list(product.numpy().shape))
