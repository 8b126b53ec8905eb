"""What `card_contract` runs in a container: the driver API through ctypes, and nothing but Python.

python card_program.py card                the UUID of the first card, and whether that is a MIG instance
python card_program.py addresses FILE      of each (symbol, name, version, flags) of a JSON file
python card_program.py events              what recording an event and asking for it cost
python card_program.py charge              takes by each route, and waits to be read from outside
python card_program.py shared              exports, imports what it exported, and lets go of the first
python card_program.py fill                takes until it is refused, frees, takes again
python card_program.py busy HOW MS SECONDS keeps the card busy with kernels of so many ms: kernel, graph

Prints JSON lines. What waits, waits for a line on stdin.
"""

import ctypes
import json
import statistics
import sys
import time
import uuid

MIB = 1 << 20
UNIT = 32 * MIB
UNITS = 8
FILL_AT_MOST = 1 << 14
GRAPH_KERNELS = 10
DEEP = 8
EVENTS = 2000
OUT_OF_MEMORY = 2

# Spins for as many nanoseconds as it is told; its name tells the simulated driver the same.
SPIN = """
.version 6.3
.target sm_75
.address_size 64
.visible .entry sim_%(ns)dns(.param .u64 length)
{
    .reg .u64 %%length, %%now, %%end;
    .reg .pred %%more;
    ld.param.u64 %%length, [length];
    mov.u64 %%end, %%globaltimer;
    add.u64 %%end, %%end, %%length;
AGAIN:
    mov.u64 %%now, %%globaltimer;
    setp.lt.u64 %%more, %%now, %%end;
    @%%more bra AGAIN;
    ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")
pointer, size = ctypes.c_void_p, ctypes.c_size_t


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32", pointer),
        ("flags", ctypes.c_uint64),
    )


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (
        ("width", size),
        ("height", size),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
    )


class Refused(Exception):
    """Out of memory."""


def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def wait():
    sys.stdin.readline()


def call(symbol, *arguments):
    result = getattr(cuda, symbol)(*arguments)
    if result == OUT_OF_MEMORY:
        raise Refused(symbol)
    assert result == 0, f"{symbol}: {result}"


def start():
    context = pointer()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


# Memory.


def take_plain():
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), size(UNIT))
    return address


def give_plain(address):
    call("cuMemFree_v2", address)


def take_in_order():
    address = ctypes.c_uint64()
    call("cuMemAllocAsync", ctypes.byref(address), size(UNIT), None)
    call("cuStreamSynchronize", None)
    return address


def give_in_order(address):
    call("cuMemFreeAsync", address, None)
    call("cuStreamSynchronize", None)


def take_handle(handle_types=0):
    handle = ctypes.c_uint64()
    properties = Properties(type=1, handle_types=handle_types, location_type=1, location_id=0)
    call(
        "cuMemCreate",
        ctypes.byref(handle),
        size(UNIT),
        ctypes.byref(properties),
        ctypes.c_uint64(0),
    )
    return handle


def give_handle(handle):
    call("cuMemRelease", handle)


def take_array():
    array = pointer()
    descriptor = ArrayDescriptor(width=4096, height=UNIT // 4096 // 4, format=0x20, channels=1)
    call("cuArrayCreate_v2", ctypes.byref(array), ctypes.byref(descriptor))
    return array


def give_array(array):
    call("cuArrayDestroy", array)


ROUTES = {
    "plain": (take_plain, give_plain),
    "in order": (take_in_order, give_in_order),
    "handle": (take_handle, give_handle),
    "array": (take_array, give_array),
}


def charge():
    start()
    for name, (take, give) in ROUTES.items():
        give(take())  # what the first one makes for all
        say(route=name, held=0)
        wait()
        held = [take() for _ in range(UNITS)]
        say(route=name, held=UNITS * UNIT)
        wait()
        for one in held:
            give(one)


def shared():
    start()
    address, names = take_plain(), [(ctypes.c_ubyte * 64)() for _ in range(2)]
    for name in names:
        call("cuIpcGetMemHandle", name, address)
    give_plain(address)
    handle, fd, imported = take_handle(1), ctypes.c_int(), ctypes.c_uint64()
    call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, 1, ctypes.c_uint64(0))
    call("cuMemImportFromShareableHandle", ctypes.byref(imported), pointer(fd.value), 1)
    say(step="imported", are_alike=bytes(names[0]) == bytes(names[1]))
    wait()
    call("cuMemRelease", handle)
    say(step="released")
    wait()
    call("cuMemRelease", imported)
    say(step="both released")
    wait()


def fill():
    start()
    free, total = size(), size()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    say(free=free.value, total=total.value)
    for name, (take, give) in ROUTES.items():
        held, refused = [], False
        while not refused and len(held) < FILL_AT_MOST:
            try:
                held.append(take())
            except Refused:
                refused = True
        granted = len(held) * UNIT
        while held:
            give(held.pop())
        give(take())
        say(route=name, granted=granted, refused=refused)


# Look-up.


def where(address):
    """The file that the function is in."""

    class Found(ctypes.Structure):
        _fields_ = (
            ("file", ctypes.c_char_p),
            ("base", pointer),
            ("name", ctypes.c_char_p),
            ("at", pointer),
        )

    found = Found()
    known = ctypes.CDLL(None).dladdr(pointer(address), ctypes.byref(found))
    return found.file.decode() if known and found.file else ""


def exported_at(symbol):
    function = getattr(cuda, symbol, None)
    return function and ctypes.cast(function, pointer).value


def addresses(requests):
    start()
    driver = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(driver))
    form_at = {exported_at(symbol): symbol for symbol, *_ in requests}
    for symbol, name, version, flags in requests:
        if version > driver.value:
            continue  # it gives an older form
        found, status = pointer(), ctypes.c_int()
        result = cuda.cuGetProcAddress_v2(
            name.encode(),
            ctypes.byref(found),
            version,
            ctypes.c_uint64(flags),
            ctypes.byref(status),
        )
        is_found = result == 0 and bool(found.value)
        say(
            symbol=symbol,
            is_found=is_found,
            form=form_at.get(found.value) if is_found else None,
            file=where(found.value) if is_found else "",
        )


def card():
    call("cuInit", 0)
    physical, own = (ctypes.c_ubyte * 16)(), (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid", physical, 0)
    call("cuDeviceGetUuid_v2", own, 0)
    say(uuid=f"GPU-{uuid.UUID(bytes=bytes(own))}", is_instance=bytes(own) != bytes(physical))


# Time.


def make_kernel(milliseconds):
    module, function = pointer(), pointer()
    ns = int(milliseconds * 1e6)
    call("cuModuleLoadData", ctypes.byref(module), (SPIN % {"ns": ns}).encode())
    call("cuModuleGetFunction", ctypes.byref(function), module, f"sim_{ns}ns".encode())
    length = ctypes.c_uint64(ns)
    parameters = (pointer * 1)(ctypes.addressof(length))

    def launch(stream=None):
        call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    launch.keeps = (module, length, parameters)
    return launch


def make_event():
    event = pointer()
    call("cuEventCreate", ctypes.byref(event), 0)
    return event


def make_graph(launch):
    stream, graph, executable = pointer(), pointer(), pointer()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuStreamBeginCapture_v2", stream, 0)
    for _ in range(GRAPH_KERNELS):
        launch(stream)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
    return lambda: call("cuGraphLaunch", executable, None)


def events():
    start()
    launch = make_kernel(0.01)
    launch()
    call("cuCtxSynchronize")
    event = make_event()
    took = {"cuEventRecord": [], "cuEventQuery": []}
    for _ in range(EVENTS):
        for symbol, arguments in (("cuEventRecord", (event, None)), ("cuEventQuery", (event,))):
            function = getattr(cuda, symbol)
            began = time.perf_counter_ns()
            function(*arguments)
            took[symbol].append(time.perf_counter_ns() - began)
    for symbol, ns in took.items():
        say(call=symbol, median_ns=statistics.median(ns))


def busy(how, milliseconds, seconds):
    """Never more than a few ahead, as programs that wait for results; says what was done by the end."""
    start()
    launch = make_kernel(milliseconds)
    for _ in range(3):
        launch()
    call("cuCtxSynchronize")
    per_turn = 1
    if how == "graph":
        launch, per_turn = make_graph(launch), GRAPH_KERNELS
    done = [make_event() for _ in range(DEEP)]
    say(ready=True)
    wait()
    began, turn = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        if turn >= DEEP:
            call("cuEventSynchronize", done[turn % DEEP])
        launch()
        call("cuEventRecord", done[turn % DEEP], None)
        turn += 1
    call("cuCtxSynchronize")
    elapsed = time.monotonic() - began
    say(percent=100 * turn * per_turn * milliseconds / 1e3 / elapsed, seconds=elapsed)


if __name__ == "__main__":
    act, *words = sys.argv[1:]
    if act == "addresses":
        with open(words[0]) as file:  # noqa: PTH123 - as little as possible
            addresses(json.load(file))
    elif act == "busy":
        busy(words[0], float(words[1]), float(words[2]))
    else:
        {"card": card, "events": events, "charge": charge, "fill": fill, "shared": shared}[act]()
