"""Memory is charged to the device that owns it, whatever device the calling thread's context is on."""

import subprocess
import sys

import pytest

from tests.native.container import CARD, MIB, OTHER_CARD, TIMEOUT_S

pytestmark = pytest.mark.native

# The context of device 0 is current all the time; everything belongs to device 1.
PROGRAM = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
size, pointer = ctypes.c_size_t, ctypes.c_void_p
def call(symbol, *arguments):
    result = getattr(cuda, symbol)(*arguments)
    assert result == 0, f"{symbol}: {result}"
class Properties(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("type", "handles", "location", "device")] + [
        ("rest", ctypes.c_char * 72)]
here, there, stream, pool = pointer(), pointer(), pointer(), pointer()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(there), 1)
call("cuCtxSetCurrent", there)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuDevicePrimaryCtxRetain", ctypes.byref(here), 0)
call("cuCtxSetCurrent", here)
way, UNIT = sys.argv[1], size(64 << 20)
address = ctypes.c_uint64()
properties = Properties(type=1, location=1, device=1)
if way == "handle":
    call("cuMemCreate", ctypes.byref(address), UNIT, ctypes.byref(properties), ctypes.c_uint64(0))
elif way == "stream":
    call("cuMemAllocAsync", ctypes.byref(address), UNIT, stream)
elif way == "pool":
    call("cuMemPoolCreate", ctypes.byref(pool), ctypes.byref(properties))
    call("cuMemAllocFromPoolAsync", ctypes.byref(address), UNIT, pool, None)
else:
    call("cuCtxPushCurrent_v2", there)
    call("cuMemAlloc_v2", ctypes.byref(address), UNIT)
    call("cuCtxPopCurrent_v2", ctypes.byref(pointer()))
print("taken", flush=True)
input()
if way == "handle":
    call("cuMemRelease", address)
elif way in ("stream", "pool"):
    call("cuMemFreeAsync", address, stream if way == "stream" else None)
    call("cuStreamSynchronize", stream if way == "stream" else None)
    call("cuCtxSetCurrent", there)
    call("cuCtxSynchronize")
    call("cuCtxSetCurrent", here)
else:
    call("cuMemFree_v2", address)
print("given back", flush=True)
input()
"""


@pytest.mark.parametrize("way", ["plain", "handle", "stream", "pool"])
def test_memory_is_charged_to_the_device_that_owns_it(container, way):
    container.limit((CARD, 1000), (OTHER_CARD, 1000))
    charged = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, way],
        env=container.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tenant:
        for said in ("taken\n", "given back\n"):
            assert tenant.stdout.readline() == said, tenant.stderr.read()
            usage = container.usage()
            charged.append((usage.used_bytes(CARD), usage.used_bytes(OTHER_CARD)))
            tenant.stdin.write("\n")
            tenant.stdin.flush()
        tenant.wait(TIMEOUT_S)

    assert charged == [(0, 64 * MIB), (0, 0)]


@pytest.mark.parametrize("way", ["plain", "handle", "stream", "pool"])
def test_the_owning_device_s_limit_counts(container, way):
    container.limit((CARD, 1000), (OTHER_CARD, 32))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, way],
        env=container.environment(),
        input="",
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.returncode != 0
    assert done.stderr.strip().endswith(": 2"), done.stderr


NVML_FIRST = """
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
assert nvml.nvmlInit_v2() == 0
for index in (0, 1):
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    print("nvml", index, memory[0] >> 20)
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for mib in (200, 1):
    print("cuda", cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20)))
"""


def test_who_asks_nvml_first_has_the_same_devices(container):
    """NVML counts all cards, CUDA the visible ones: here its first is NVML's second."""
    container.limit((CARD, 100), (OTHER_CARD, 200))

    done = subprocess.run(
        [sys.executable, "-c", NVML_FIRST],
        env=container.environment({"CUDA_VISIBLE_DEVICES": "1"}),
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.stdout.splitlines() == ["nvml 0 100", "nvml 1 200", "cuda 0", "cuda 2"]


CARDS_AT_MOST = 32
"""Of the simulated drivers."""


def test_the_last_of_many_cards_has_its_own_limit(container):
    cards = [f"GPU-{number:08d}-2222-3333-4444-555555555555" for number in range(CARDS_AT_MOST)]
    container.machine.write_text(
        "\n".join(f"uuid={card}\nname=NVIDIA A100\nmemory_mib=4096\n" for card in cards)
    )
    others = [f"GPU-{number:08d}-aaaa-bbbb-cccc-dddddddddddd" for number in range(64 - len(cards))]
    container.limit(*((card, 50) for card in others), *((card, 100) for card in cards))

    answers = container.alloc("--device", CARDS_AT_MOST - 1, 100, 1)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
