"""cuda.core: buffers of the device's pool, of an own and of a managed one, a kernel compiled by NVRTC.

Not of graphs: it gives each of them an object of its own to keep (cuUserObjectCreate), which the simulated driver does not have.
"""

from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    Program,
    ProgramOptions,
    launch,
)
from routes import CHUNK_BYTES, say, try_routes

SOURCE = 'extern "C" __global__ void fill(int *to) { to[threadIdx.x] = 1; }'

device = Device(0)
device.set_current()
stream = device.create_stream()
own_pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
managed_pool = ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0))


def free(buffer):
    buffer.close(stream)
    stream.sync()


try_routes(
    {
        "buffer": (lambda size: device.allocate(size, stream=stream), free, CHUNK_BYTES),
        "own pool": (lambda size: own_pool.allocate(size, stream=stream), free, CHUNK_BYTES),
        "managed pool": (
            lambda size: managed_pool.allocate(size, stream=stream),
            free,
            CHUNK_BYTES,
        ),
    },
    Exception,
)

program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("fill")
buffer = device.allocate(4096, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
stream.sync()
say(name=device.name)
