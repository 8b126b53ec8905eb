"""cuda.core: buffers of the device's pool, a kernel compiled by NVRTC."""

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from routes import say, try_routes

SOURCE = 'extern "C" __global__ void fill(int *to) { to[threadIdx.x] = 1; }'

device = Device(0)
device.set_current()
stream = device.create_stream()


def free(buffer):
    buffer.close(stream)
    stream.sync()


try_routes({"buffer": (lambda size: device.allocate(size, stream=stream), free)}, Exception)

program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("fill")
buffer = device.allocate(4096, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
stream.sync()
say(name=device.name)
