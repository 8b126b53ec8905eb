"""numba-cuda: device and managed arrays, a kernel that it compiles, pinned arrays."""

import gc
import warnings

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError
from routes import UNIT_BYTES, say, try_routes

warnings.simplefilter("ignore")


@cuda.jit
def fill(to):
    to[cuda.threadIdx.x] = 1


def give(array):
    del array
    gc.collect()
    cuda.current_context().deallocations.clear()


def take(size):
    # Numba sees a refusal, frees what it has put by for later, and tries once more.
    return cuda.device_array(size, dtype=np.uint8)


def take_managed(size):
    return cuda.managed_array(size, dtype=np.uint8)


def figures():
    free_bytes, total_bytes = cuda.current_context().get_memory_info()
    return {"free_bytes": free_bytes, "total_bytes": total_bytes}


try_routes(
    {"array": (take, give, UNIT_BYTES), "managed array": (take_managed, give, UNIT_BYTES)},
    CudaAPIError,
    figures,
)

array = cuda.to_device(np.arange(32, dtype=np.int32))
fill[1, 32](array)
cuda.synchronize()
pinned = cuda.pinned_array(10)
say(copied_back=array.copy_to_host().tolist() == list(range(32)))
