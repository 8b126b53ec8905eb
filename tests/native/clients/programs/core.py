"""cuda.core: buffers of each of its memory resources that are of a device, a kernel compiled by NVRTC."""

from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    GraphMemoryResource,
    LaunchConfig,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    Program,
    ProgramOptions,
    launch,
)
from routes import CHUNK_BYTES, MIB, say, try_routes

SOURCE = 'extern "C" __global__ void fill(int *to) { to[threadIdx.x] = 1; }'

device = Device(0)
device.set_current()
stream = device.create_stream()
own_pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
of_graphs = GraphMemoryResource(device)
managed_pool = ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0))


def free(buffer):
    buffer.close(stream)
    stream.sync()


def launch_graph(size):
    """A graph that allocates and does not free: its memory is held while it is not freed."""
    builder = stream.create_graph_builder()
    builder.begin_building()
    buffer = of_graphs.allocate(size, stream=builder)
    graph = builder.end_building().complete()
    graph.launch(stream)
    return buffer, graph, builder


def free_graph(launched):
    buffer, graph, builder = launched
    free(buffer)
    graph.close()
    builder.close()
    of_graphs.trim()


try_routes(
    {
        "buffer": (lambda size: device.allocate(size, stream=stream), free, CHUNK_BYTES),
        "own pool": (lambda size: own_pool.allocate(size, stream=stream), free, CHUNK_BYTES),
        "managed pool": (
            lambda size: managed_pool.allocate(size, stream=stream),
            free,
            CHUNK_BYTES,
        ),
        "graph": (launch_graph, free_graph, 2 * MIB),
    },
    Exception,
)

program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("fill")
buffer = device.allocate(4096, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
stream.sync()
say(name=device.name)
