"""Taichi: arrays, a kernel that it compiles. It takes memory in the order of a stream."""

import gc

import taichi as ti
from routes import CHUNK_BYTES, say, try_routes

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


def take_field(size):
    """Fields are of a tree of their own, which alone can be given back."""
    tree, field = ti.FieldsBuilder(), ti.field(ti.u8)
    tree.dense(ti.i, size).place(field)
    return tree.finalize()


def give_field(tree):
    tree.destroy()
    ti.sync()


try_routes(
    {
        "ndarray": (lambda size: ti.ndarray(ti.u8, size), give, CHUNK_BYTES),
        "field": (take_field, give_field, CHUNK_BYTES),
    },
    Exception,
)
