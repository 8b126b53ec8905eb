"""What the tests of the simulated driver do with it: `scenarios.py NAME` prints what was seen."""

import ctypes
import json
import os
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer

import calls as sim
from calls import MIB, alloc, alloc_async, begin, call, launch, status_of, used_mib

PINNED, ON_DEVICE = 1, 1
RELEASE_THRESHOLD, RESERVED, USED = 4, 5, 7


def small_blocks():
    begin()
    seen = [used_mib()]
    blocks = [alloc(1000) for _ in range(1000)]
    seen.append(used_mib())
    for block in blocks:
        call("cuMemFree_v2", block)
    seen.append(used_mib())
    return seen


def big_block():
    begin()
    block = alloc(3 * MIB)
    seen = [used_mib()]
    call("cuMemFree_v2", block)
    return [*seen, used_mib(), status_of("cuMemFree_v2", block), status_of("cuMemFree_v2", None)]


def bad_input():
    begin()
    address = c_uint64()
    return {
        "no bytes": status_of("cuMemAlloc_v2", byref(address), c_size_t(0)),
        "nowhere": status_of("cuMemAlloc_v2", None, c_size_t(1)),
        "too much": status_of("cuMemAlloc_v2", byref(address), c_size_t(1 << 60)),
        "foreign": status_of("cuMemFree_v2", c_uint64(0x1234)),
        "inside": status_of("cuMemFree_v2", c_uint64(alloc(4096).value + 512)),
        "no stream": status_of("cuStreamSynchronize", c_void_p(0x1234)),
        "no function": status_of(
            "cuLaunchKernel", c_void_p(0x1234), 1, 1, 1, 1, 1, 1, 0, None, None, None
        ),
        "no such grid": status_of(
            "cuLaunchKernel", sim.kernel("k"), 0, 1, 1, 1, 1, 1, 0, None, None, None
        ),
    }


def pitch():
    begin()
    address, row = c_uint64(), c_size_t()
    call("cuMemAllocPitch_v2", byref(address), byref(row), c_size_t(100), c_size_t(MIB), 4)
    return [row.value, used_mib()]


def pool_attribute(pool, attribute):
    value = c_uint64()
    call("cuMemPoolGetAttribute", pool, attribute, byref(value))
    return value.value / MIB


def pool():
    begin()
    pool = sim.default_pool()
    block = alloc_async(MIB)
    seen = [[pool_attribute(pool, RESERVED), pool_attribute(pool, USED), used_mib()]]
    call("cuMemFreeAsync", block, None)
    seen.append([pool_attribute(pool, RESERVED), pool_attribute(pool, USED), used_mib()])
    call("cuCtxSynchronize")
    seen.append([pool_attribute(pool, RESERVED), pool_attribute(pool, USED), used_mib()])
    return seen


def pool_threshold():
    begin()
    pool = sim.default_pool()
    call("cuMemPoolSetAttribute", pool, RELEASE_THRESHOLD, byref(c_uint64(1 << 40)))
    call("cuMemFreeAsync", alloc_async(100 * MIB), None)
    call("cuCtxSynchronize")
    kept = used_mib()
    call("cuMemPoolTrimTo", pool, c_size_t(0))
    return [kept, used_mib()]


def pool_reclaimed():
    """All that the card has is kept by the pool: another kind of allocation still gets it."""
    begin()
    pool = sim.default_pool()
    call("cuMemPoolSetAttribute", pool, RELEASE_THRESHOLD, byref(c_uint64(1 << 60)))
    call("cuMemFreeAsync", alloc_async(1000 * MIB), None)
    call("cuCtxSynchronize")
    kept = used_mib()
    alloc(900 * MIB)
    return [kept, used_mib()]


def mapped():
    begin()
    props = sim.AllocationProps(PINNED, 0, sim.Location(ON_DEVICE, 0), None, 0)
    handle, address, size = c_uint64(), c_uint64(), c_size_t(64 * MIB)
    odd = status_of("cuMemCreate", byref(handle), c_size_t(MIB), byref(props), c_uint64(0))
    call("cuMemCreate", byref(handle), size, byref(props), c_uint64(0))
    seen = [used_mib()]
    call("cuMemAddressReserve", byref(address), size, c_size_t(0), c_uint64(0), c_uint64(0))
    call("cuMemMap", address, size, c_size_t(0), handle, c_uint64(0))
    call("cuMemRelease", handle)
    seen.append(used_mib())
    access = sim.Access(sim.Location(ON_DEVICE, 0), 3)
    call("cuMemSetAccess", address, size, byref(access), c_size_t(1))
    back = create_string_buffer(4)
    call("cuMemsetD8_v2", address, 7, size)
    call("cuMemcpyDtoH_v2", back, address, c_size_t(4))
    call("cuMemUnmap", address, size)
    seen.append(used_mib())
    unmapped = status_of("cuMemsetD8_v2", address, 7, size)
    call("cuMemAddressFree", address, size)
    return {"odd": odd, "used": seen, "back": list(back.raw), "unmapped": unmapped}


def shared_by_descriptor():
    """Exported, imported again and written through the second mapping."""
    begin()
    props = sim.AllocationProps(PINNED, 1, sim.Location(ON_DEVICE, 0), None, 0)
    handle, again, fd, size = c_uint64(), c_uint64(), c_int(), c_size_t(2 * MIB)
    call("cuMemCreate", byref(handle), size, byref(props), c_uint64(0))
    call("cuMemExportToShareableHandle", byref(fd), handle, 1, c_uint64(0))
    call("cuMemImportFromShareableHandle", byref(again), c_void_p(fd.value), 1)
    places = []
    for one in (handle, again):
        place = c_uint64()
        call("cuMemAddressReserve", byref(place), size, c_size_t(0), c_uint64(0), c_uint64(0))
        call("cuMemMap", place, size, c_size_t(0), one, c_uint64(0))
        access = sim.Access(sim.Location(ON_DEVICE, 0), 3)
        call("cuMemSetAccess", place, size, byref(access), c_size_t(1))
        places.append(place)
    back = create_string_buffer(1)
    call("cuMemsetD8_v2", places[1], 9, c_size_t(1))
    call("cuMemcpyDtoH_v2", back, places[0], c_size_t(1))
    return {"used": used_mib(), "back": back.raw[0]}


def managed():
    begin()
    address, size = c_uint64(), c_size_t(100 * MIB)
    call("cuMemAllocManaged", byref(address), size, 1)
    seen = [used_mib()]
    call("cuMemPrefetchAsync", address, size, 0, None)
    seen.append(used_mib())
    call("cuMemPrefetchAsync", address, size, -1, None)
    return [*seen, used_mib()]


def managed_makes_room():
    begin()
    address, size = c_uint64(), c_size_t(900 * MIB)
    call("cuMemAllocManaged", byref(address), size, 1)
    call("cuMemPrefetchAsync", address, size, 0, None)
    alloc(600 * MIB)
    return used_mib()


def array():
    begin()
    made = c_void_p()
    call("cuArrayCreate_v2", byref(made), byref(sim.ArrayShape(1024, 1024, 0x20, 4)))
    seen = used_mib()
    call("cuArrayDestroy", made)
    return [seen, used_mib(), status_of("cuArrayDestroy", made)]


def context_cost():
    context = begin()
    seen = [used_mib()]
    other = begin()
    alloc(10 * MIB)
    seen.append(used_mib())
    call("cuCtxDestroy_v2", other)
    call("cuCtxSetCurrent", context)
    return [*seen, used_mib()]


def reset():
    call("cuInit", 0)
    context = c_void_p()
    call("cuDevicePrimaryCtxRetain", byref(context), 0)
    call("cuCtxSetCurrent", context)
    block = alloc(10 * MIB)
    call("cuDevicePrimaryCtxReset_v2", 0)
    return [used_mib(), status_of("cuMemFree_v2", block), alloc(2 * MIB).value != 0]


def capture():
    begin()
    function = sim.kernel("sim_1000ns")
    before = used_mib()
    stream, graph, executable, status = c_void_p(), c_void_p(), c_void_p(), c_int()
    call("cuStreamCreate", byref(stream), 1)
    call("cuStreamBeginCapture_v2", stream, 0)
    block = alloc_async(10 * MIB, stream)
    launch(function, stream)
    call("cuStreamIsCapturing", stream, byref(status))
    refused = status_of("cuMemAlloc_v2", byref(c_uint64()), c_size_t(MIB))
    call("cuMemFreeAsync", block, stream)
    call("cuStreamEndCapture", stream, byref(graph))
    recorded = used_mib()
    call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for _ in range(3):
        call("cuGraphLaunch", executable, stream)
    call("cuStreamSynchronize", stream)
    kept = used_mib()
    call("cuDeviceGraphMemTrim", 0)
    return {
        "capturing": status.value,
        "refused": refused,
        "recorded": recorded - before,
        "kept": kept - before,
        "trimmed": used_mib() - before,
    }


def events():
    begin()
    function, start, end = sim.kernel("sim_5000000ns"), sim.event(), sim.event()
    call("cuEventRecord", start, None)
    for _ in range(4):
        launch(function)
    call("cuEventRecord", end, None)
    early = status_of("cuEventQuery", end)
    call("cuEventSynchronize", end)
    return {"early": early, "ms": sim.elapsed_ms(start, end)}


def waves():
    """Four times the blocks that fit at once take four times as long."""
    begin()
    function, times = sim.kernel("sim_1000000ns_wave"), []
    for grid in (1, 108 * 32, 4 * 108 * 32):
        start, end = sim.event(), sim.event()
        call("cuEventRecord", start, None)
        launch(function, grid=grid)
        call("cuEventRecord", end, None)
        call("cuEventSynchronize", end)
        times.append(sim.elapsed_ms(start, end))
    return times


def keep_busy():
    """Launch for so many seconds; then say how much of the device's time one got."""
    begin()
    function, begun, launches = sim.kernel("sim_1000000ns"), time.monotonic(), 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    until = begun + float(sys.argv[2])
    while time.monotonic() < until:
        for _ in range(5):
            launch(function)
        call("cuCtxSynchronize")
        launches += 5
    return {"busy_ms": launches, "begun_ms": begun * 1000, "ended_ms": time.monotonic() * 1000}


def utilisation():
    """What NVML says after a second of nothing but kernels."""
    begin()
    nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), c_void_p()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device))
    rates, samples, count = (ctypes.c_uint * 2)(), (c_uint64 * 40)(), ctypes.c_uint(10)
    nvml.nvmlDeviceGetUtilizationRates(device, rates)
    before = rates[0]
    function = sim.kernel("sim_10000000ns")
    for _ in range(100):
        launch(function)
    call("cuCtxSynchronize")
    nvml.nvmlDeviceGetUtilizationRates(device, rates)
    status = nvml.nvmlDeviceGetProcessUtilization(device, samples, byref(count), c_uint64(0))
    return {
        "before": before,
        "card": rates[0],
        "processes": [status, count.value],
        "is us": samples[0] == os.getpid(),
        "of it": samples[2] & 0xFFFFFFFF,
    }


def per_thread_forms():
    begin()
    found, ordinary, status = c_void_p(), c_void_p(), c_int()
    call("cuGetProcAddress_v2", b"cuMemAllocAsync", byref(found), 12000, c_uint64(2), byref(status))
    call(
        "cuGetProcAddress_v2",
        b"cuMemAllocAsync",
        byref(ordinary),
        12000,
        c_uint64(0),
        byref(status),
    )
    newer = status_of(
        "cuGetProcAddress_v2",
        b"cuLogicalEndpointCreate",
        byref(c_void_p()),
        13050,
        c_uint64(0),
        None,
    )
    address = c_uint64()
    call("cuMemAllocAsync_ptsz", byref(address), c_size_t(MIB), None)
    return {
        "differ": found.value != ordinary.value,
        "works": address.value != 0,
        "newer than the driver": newer,
        "not imitated": status_of("cuCheckpointProcessLock", 1, None),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]]()) + "\n")
