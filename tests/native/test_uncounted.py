"""Memory that no call asks for (code, with its variables): seen by the driver, and then it counts."""

import asyncio
import contextlib
import json
import sys
import time

import pytest

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.services import running
from hamid.hooks.lending import ContainerDirs, Lender, MemoryWeigher
from hamid.nvml.client import NvmlClient
from tests.native.container import CARD

pytestmark = pytest.mark.native

LIMIT_MIB = 512
CODE_MIB = 384
OUT_OF_MEMORY = 2

# A line on stdin: code MIB, unload, alloc MIB; a JSON line for each.
PROGRAM = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, modules = ctypes.c_void_p(), []
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for line in sys.stdin:
    act, *amount = line.split()
    results = []
    if act == "code":
        text = b"/" * ((32 << 20) - 1)
        for _ in range(int(amount[0]) // 32):
            modules.append(ctypes.c_void_p())
            results.append(cuda.cuModuleLoadData(ctypes.byref(modules[-1]), text))
    while act == "unload" and modules:
        results.append(cuda.cuModuleUnload(modules.pop()))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    if act == "alloc":
        address = ctypes.c_uint64()
        results.append(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(amount[0]) << 20)))
        if results == [0]:
            cuda.cuMemFree_v2(address)
    print(json.dumps({"results": results, "free_mib": free.value >> 20, "total_mib": total.value >> 20}), flush=True)
"""


class Program:
    def __init__(self, process):
        self.process = process

    async def tell(self, line: str) -> dict:
        self.process.stdin.write(line.encode() + b"\n")
        return json.loads(await self.process.stdout.readline())


@pytest.fixture
async def program(container):
    container.limit((CARD, LIMIT_MIB))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM),
        env=container.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    yield Program(process)
    process.kill()
    await process.communicate()


@pytest.fixture
async def watched(container, monkeypatch):
    """A lender that weighs the container's memory."""
    for name in ("HAMID_SIM_DEVICES", "HAMID_SIM_STATE"):
        monkeypatch.setenv(name, container.env[name])
    dirs = ContainerDirs(limits=container.limits_dir, usage=container.usage_dir)
    thread = OneThread(name="lender")
    library = container.build / "sim" / "libnvidia-ml.so.1"
    async with NvmlClient.open(library_path=library) as nvml:
        keeper = Lender(
            directories=lambda: {"grant": dirs},
            nvml=nvml,
            thread=thread,
            clock_ns=time.monotonic_ns,
            weighs_memory=True,
        )
        async with running(keeper, MemoryWeigher(lender=keeper, interval_s=0.05)):
            yield
    thread.close()


async def until_free_mib(program: Program, free_mib: int) -> dict:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while (told := await program.tell("look"))["free_mib"] != free_mib:
                pass
    return told


async def test_a_slice_can_be_allocated_to_its_last_byte_whatever_code_is_loaded(program):
    """By default: code belongs to what contexts take beside the slices."""
    await program.tell(f"code {CODE_MIB}")

    assert (await program.tell(f"alloc {LIMIT_MIB}"))["results"] == [0]


@pytest.mark.usefixtures("watched")
async def test_code_counts_where_what_the_driver_sees_does(program):
    assert (await program.tell(f"alloc {LIMIT_MIB}"))["results"] == [0]
    loaded = await program.tell(f"code {CODE_MIB}")
    left = await until_free_mib(program, LIMIT_MIB - CODE_MIB)
    too_much = await program.tell(f"alloc {LIMIT_MIB - CODE_MIB + 1}")
    fitting = await program.tell(f"alloc {LIMIT_MIB - CODE_MIB}")
    await program.tell("unload")
    await until_free_mib(program, LIMIT_MIB)
    again = await program.tell(f"alloc {LIMIT_MIB}")

    assert set(loaded["results"]) == {0}
    assert (left["free_mib"], left["total_mib"]) == (LIMIT_MIB - CODE_MIB, LIMIT_MIB)
    assert too_much["results"] == [OUT_OF_MEMORY]
    assert fitting["results"] == again["results"] == [0]
