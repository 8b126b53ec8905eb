"""Every form of making and ending a context is charged and released, where contexts are charged."""

import subprocess
import sys

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, TIMEOUT_S

pytestmark = pytest.mark.native

CONTEXT_MIB = 300
MAKE = {
    "cuCtxCreate": "byref(context), 0, 0",
    "cuCtxCreate_v2": "byref(context), 0, 0",
    "cuCtxCreate_v3": "byref(context), None, 0, 0, 0",
    "cuCtxCreate_v4": "byref(context), None, 0, 0",
    "cuDevicePrimaryCtxRetain": "byref(context), 0",
}
PAIRS = [
    *((make, "cuCtxDestroy_v2", "context") for make in MAKE if "Primary" not in make),
    ("cuCtxCreate_v2", "cuCtxDestroy", "context"),
    ("cuCtxCreate_v2", "cuCtxDetach", "context"),
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "0"),
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "0"),
]
PROGRAM = """
from ctypes import CDLL, byref, c_void_p
cuda, context = CDLL("libcuda.so.1"), c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.{make}({arguments}) == 0
print("made", flush=True); input()
assert cuda.{end}({ended}) == 0
print("ended", flush=True); input()
"""


@pytest.mark.parametrize(("make", "end", "ended"), PAIRS)
def test_a_context_is_charged_from_its_making_to_its_end(container, make, end, ended):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=1000 * MIB, context_bytes=CONTEXT_MIB * MIB)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    program = PROGRAM.format(make=make, arguments=MAKE[make], end=end, ended=ended)
    charged = []
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=container.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for expected in ("made\n", "ended\n"):
            assert process.stdout.readline() == expected
            charged.append(container.usage().used_bytes(CARD) // MIB)
            process.stdin.write("\n")
            process.stdin.flush()
        process.wait(TIMEOUT_S)

    assert charged == [CONTEXT_MIB, 0]
