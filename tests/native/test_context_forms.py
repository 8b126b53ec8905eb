"""Every form of making and ending a context is charged and released, where contexts are charged."""

import subprocess
import sys

import pytest

from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, TIMEOUT_S
from tests.native.stepwise import said

pytestmark = pytest.mark.native

CONTEXT_MIB = 300
OUT_OF_MEMORY = 2
UNKNOWN = 999
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


@pytest.mark.parametrize("make", MAKE)
def test_a_context_that_the_driver_does_not_make_is_charged_nothing(container, make):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=1000 * MIB, context_bytes=CONTEXT_MIB * MIB)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    container.env["HAMID_SIM_CUDA_FAIL"] = ",".join(f"{form}={UNKNOWN}" for form in MAKE)
    program = f'steps.say("made", cuda.{make}({MAKE[make]}))'

    assert said(container, program, with_context=False) == {"made": (UNKNOWN, 0, 0)}


GREEN = """
from ctypes import *
release = cuda.cuDevicePrimaryCtxRelease_v2
def make(green):
    resources, description = create_string_buffer(144), c_void_p()
    assert cuda.cuDeviceGetDevResource(0, resources, 1) == 0
    assert cuda.cuDevResourceGenerateDesc(byref(description), resources, 1) == 0
    return cuda.cuGreenCtxCreate(byref(green), description, 0, 1)
def enter(green):
    assert cuda.cuCtxFromGreenCtx(byref(context), green) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    return cuda.cuMemAlloc_v2(byref(c_ulonglong()), c_size_t(40 * MIB))
first, second = c_void_p(), c_void_p()
steps.say("primary", 0)
steps.say("primary released", release(0))
steps.say("first", make(first))
steps.say("second", make(second))
steps.say("memory taken in the first", enter(first))
steps.say("first destroyed", cuda.cuGreenCtxDestroy(first))
steps.say("first destroyed again", cuda.cuGreenCtxDestroy(first))
steps.say("memory taken in the second", enter(second))
steps.say("second destroyed", cuda.cuGreenCtxDestroy(second))
"""
INVALID_VALUE = 1


def test_a_green_context_is_charged_as_the_primary_one_that_it_holds(container):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=1000 * MIB, context_bytes=CONTEXT_MIB * MIB)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))

    steps = said(container, GREEN)

    assert {step: charged for step, (_, charged, _) in steps.items()} == {
        "primary": 300,
        "primary released": 0,
        "first": 300,
        "second": 300,
        "memory taken in the first": 340,
        "first destroyed": 340,
        "first destroyed again": 340,
        "memory taken in the second": 380,
        "second destroyed": 0,
    }
    assert {step: result for step, (result, *_) in steps.items() if result} == {
        "first destroyed again": INVALID_VALUE
    }


def test_a_green_context_for_which_there_is_no_room_is_not_made(container):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=400 * MIB, context_bytes=CONTEXT_MIB * MIB)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    container.start()  # which has a context of its own
    program = GREEN.split("steps.say", 1)[0] + 'steps.say("first", make(first))'

    assert said(container, program, with_context=False)["first"] == (OUT_OF_MEMORY, 300, 0)
