"""NVIDIA's runtimes from CUDA 11.2 on authenticate the driver: they refuse the simulated one, and we leave that alone.

What they do on a real driver is in tests/gpu/test_real_clients.py.
"""

from tests.native.clients.machine import real_client

pytestmark = real_client("cuda12", "cuda13")


def test_they_refuse_the_simulated_driver_with_the_library_as_without(client):
    bare = client.program("with_runtime.py", is_limited=False)

    limited = client.program("with_runtime.py", is_limited=True)

    (line,) = limited
    assert line["start"] != "cudaSuccess"
    assert limited == bare
