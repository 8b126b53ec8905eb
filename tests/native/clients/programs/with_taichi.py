"""Taichi: arrays, a kernel that it compiles. It takes memory in the order of a stream."""

import gc

import taichi as ti
from routes import say, try_routes

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)


@ti.kernel
def fill(to: ti.types.ndarray()):
    for i in to:
        to[i] = 1.0


def give(array):
    del array
    gc.collect()
    ti.sync()


array = ti.ndarray(ti.f32, 1000)
fill(array)
ti.sync()
say(arch=str(ti.cfg.arch))
try_routes({"ndarray": (lambda size: ti.ndarray(ti.u8, size), give)}, Exception)
