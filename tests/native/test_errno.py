"""No call changes errno that would not have without the library, whatever it has to do for it: files, locks, waits, words."""

import json
import subprocess
import sys

import pytest

from hamid.hooks.abi.contract import LOCK_SLOW_OFFSET, USAGE_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from tests.native.container import CARD, MIB, TIMEOUT_S

pytestmark = pytest.mark.native

LIMIT_MIB = 100
BEFORE = 4711
PROGRAM = f"""
import fcntl, json, os, struct, sys
from ctypes import *
from pathlib import Path
limits, usage = Path(os.environ["HAMID_TEST_LIMITS_DIR"]), Path(os.environ["HAMID_TEST_USAGE_DIR"])
cuda, nvml = CDLL("libcuda.so.1", use_errno=True), CDLL("libnvidia-ml.so.1", use_errno=True)
said = {{}}
def call(what, symbol, *arguments):
    function = getattr(nvml if symbol.startswith("nvml") else cuda, symbol)
    set_errno({BEFORE})
    result = function(*arguments)
    said[what] = [result, get_errno()]
def replace_page(content):
    (limits / "new").write_bytes(content)
    (limits / "new").rename(limits / "control.page")
def some(mib):
    return c_size_t(mib << 20)
context, stream, address, other, array = c_void_p(), c_void_p(), c_ulonglong(), c_ulonglong(), c_void_p()
function, module, pool, device = c_void_p(), c_void_p(), c_void_p(), c_void_p()
page = (limits / "control.page").read_bytes()
call("first of all", "cuInit", 0)
call("context", "cuDevicePrimaryCtxRetain", byref(context), 0)
call("current", "cuCtxSetCurrent", context)
call("stream", "cuStreamCreate", byref(stream), 0)
call("look-up", "cuGetProcAddress_v2", b"cuMemAlloc", byref(function), 12000, c_ulonglong(0), byref(c_int()))
call("joins the page, where a dead one is", "cuMemAlloc_v2", byref(address), some(60))
call("refused", "cuMemAlloc_v2", byref(other), some(60))
call("total", "cuDeviceTotalMem_v2", byref(c_size_t()), 0)
call("told", "cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t()))
replace_page(page)
call("another page", "cuMemAlloc_v2", byref(other), some(1))
call("freed", "cuMemFree_v2", other)
call("freed twice", "cuMemFree_v2", other)
call("nothing freed", "cuMemFree_v2", c_ulonglong(0))
call("managed", "cuMemAllocManaged", byref(other), some(1), 1)
call("managed, freed", "cuMemFree_v2", other)
call("pitched", "cuMemAllocPitch_v2", byref(other), byref(c_size_t()), c_size_t(100), c_size_t(100), 4)
call("pitched, freed", "cuMemFree_v2", other)
call("pooled", "cuMemAllocAsync", byref(other), some(1), stream)
call("too much of a pool", "cuMemAllocAsync", byref(c_ulonglong()), some(60), stream)
call("pooled, freed", "cuMemFreeAsync", other, stream)
call("waited", "cuStreamSynchronize", stream)
call("a device's pool", "cuDeviceGetDefaultMemPool", byref(pool), 0)
call("trimmed", "cuMemPoolTrimTo", pool, c_size_t(0))
shape = (c_size_t * 4)(64, 64, 0x20 | 1 << 32, 0)
call("array", "cuArrayCreate_v2", byref(array), shape)
call("array destroyed", "cuArrayDestroy", array)
handle, physical, imported, fd = (c_ulonglong * 8)(), c_ulonglong(), c_ulonglong(), c_int(-1)
props = (c_ulonglong * 4)(1 | 1 << 32, 1, 0, 0)
call("handle of a block", "cuIpcGetMemHandle", handle, address)
call("physical memory", "cuMemCreate", byref(physical), some(2), props, c_ulonglong(0))
call("exported", "cuMemExportToShareableHandle", byref(fd), physical, 1, c_ulonglong(0))
call("imported", "cuMemImportFromShareableHandle", byref(imported), c_void_p(fd.value), 1)
plain = open("/proc/self/exe", "rb")
call("of no file of memory", "cuMemImportFromShareableHandle", byref(c_ulonglong()), c_void_p(plain.fileno()), 1)
call("released", "cuMemRelease", physical)
call("import released", "cuMemRelease", imported)
call("limit", "cuCtxSetLimit", 2, c_size_t(12 << 20))
call("module", "cuModuleLoadData", byref(module), b".version 8.0\\n.target sm_80\\n.address_size 64\\n")
call("function", "cuModuleGetFunction", byref(function), module, b"sim_10000000ns")
for turn in range(12):
    call(f"launch {{turn}}", "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
call("all waited for", "cuCtxSynchronize")
call("NVML", "nvmlInit_v2")
call("NVML's device", "nvmlDeviceGetHandleByIndex_v2", 0, byref(device))
call("NVML's memory", "nvmlDeviceGetMemoryInfo", device, byref((c_ulonglong * 3)()))
call("NVML's list", "nvmlDeviceGetComputeRunningProcesses_v3", device, byref(c_uint(0)), None)
call("NVML's load", "nvmlDeviceGetUtilizationRates", device, byref((c_uint * 2)()))
if (usage / "{USAGE_PAGE_NAME}").exists():
    stuck = open(usage / "{USAGE_PAGE_NAME}", "r+b")
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, {LOCK_SLOW_OFFSET}, 1, 0)
    fcntl.fcntl(stuck, fcntl.F_OFD_SETLK, lock)
call("refused, the lock stuck", "cuMemAlloc_v2", byref(c_ulonglong()), some(60))
call("told, the lock stuck", "cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t()))
replace_page(b"nonsense")
call("a page that is none, said on stderr", "cuMemAlloc_v2", byref(c_ulonglong()), some(1))
replace_page(page)
call("destroyed", "cuDevicePrimaryCtxReset_v2", 0)
print(json.dumps(said))
"""
REFUSED = {
    "refused": 2,
    "too much of a pool": 2,
    "refused, the lock stuck": 2,
    "a page that is none, said on stderr": 800,
}


def test_errno_is_what_it_would_have_been_after_every_call(container):
    device = DeviceLimit(device_uuid=CARD, memory_bytes=LIMIT_MIB * MIB, core_percent=50)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1)
    container.write_page(encode_control_page(limits))
    container.start(10).kill()  # leaves a slot that is looked at before a no
    said = {}
    for name, env in (("bare", container.env), ("ours", container.environment())):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=env,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        said[name] = json.loads(done.stdout)

    results, errnos = (
        {name: {what: pair[i] for what, pair in calls.items()} for name, calls in said.items()}
        for i in (0, 1)
    )
    assert errnos["ours"] == errnos["bare"]
    assert errnos["bare"]["refused"] == BEFORE
    assert results["ours"] == results["bare"] | REFUSED
