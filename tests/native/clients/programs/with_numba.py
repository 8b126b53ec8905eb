"""numba-cuda: device arrays, a kernel that it compiles, managed and pinned arrays."""

import gc
import warnings

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError
from routes import say, try_routes

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


try_routes({"array": (take, give)}, CudaAPIError)

array = cuda.to_device(np.arange(32, dtype=np.int32))
fill[1, 32](array)
cuda.synchronize()
managed, pinned = cuda.managed_array(10), cuda.pinned_array(10)
say(copied_back=array.copy_to_host().tolist() == list(range(32)))
