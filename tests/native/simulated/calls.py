"""The simulated driver by ctypes, for scenarios.py: runs in a process of its own."""

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

MIB = 1 << 20
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_HANDLE = 0, 1, 2, 201, 400
NOT_READY = 600

cuda = ctypes.CDLL("libcuda.so.1")


class Failed(Exception):
    def __init__(self, name, status):
        super().__init__(f"{name}: {status}")
        self.status = status


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != SUCCESS:
        raise Failed(name, status)


def status_of(name, *arguments):
    return getattr(cuda, name)(*arguments)


class Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class AllocationProps(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", c_uint64),
    )


class Access(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", c_int))


class ArrayShape(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("format", c_int),
        ("channels", ctypes.c_uint),
    )


def begin():
    """A context of one's own on the first device."""
    call("cuInit", 0)
    context = c_void_p()
    call("cuCtxCreate_v2", byref(context), 0, 0)
    return context


def used_mib():
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return (total.value - free.value) / MIB


def alloc(size):
    address = c_uint64()
    call("cuMemAlloc_v2", byref(address), c_size_t(size))
    return address


def alloc_async(size, stream=None):
    address = c_uint64()
    call("cuMemAllocAsync", byref(address), c_size_t(size), stream)
    return address


def default_pool():
    pool = c_void_p()
    call("cuDeviceGetDefaultMemPool", byref(pool), 0)
    return pool


def kernel(name):
    module, function = c_void_p(), c_void_p()
    call("cuModuleLoadData", byref(module), b"// no code")
    call("cuModuleGetFunction", byref(function), module, name.encode())
    return function


def launch(function, stream=None, grid=1):
    call("cuLaunchKernel", function, grid, 1, 1, 32, 1, 1, 0, stream, None, None)


def event():
    made = c_void_p()
    call("cuEventCreate", byref(made), 0)
    return made


def elapsed_ms(start, end):
    milliseconds = c_float()
    call("cuEventElapsedTime", byref(milliseconds), start, end)
    return milliseconds.value
