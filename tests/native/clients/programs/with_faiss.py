"""faiss on a static CUDA runtime of 10.x: vectors in device and in managed memory, scratch, a search."""

import faiss
import numpy as np
from routes import MIB, UNIT_BYTES, say, try_routes

DIMENSIONS = 64

resources = faiss.StandardGpuResources()
resources.noTempMemory()


def vectors(space):
    def take(size):
        config = faiss.GpuIndexFlatConfig()
        if space is not None:
            config.memorySpace = space
        index = faiss.GpuIndexFlatL2(resources, DIMENSIONS, config)
        index.add(np.zeros((size // (4 * DIMENSIONS), DIMENSIONS), dtype=np.float32))
        return index

    return take, lambda index: index.reset()


def drop(held):
    del held


def take_scratch(size):
    own = faiss.StandardGpuResources()
    own.setTempMemory(size)
    return own, faiss.GpuIndexFlatL2(own, DIMENSIONS)


say(devices=faiss.get_num_gpus())
try_routes(
    {
        "vectors": (*vectors(None), UNIT_BYTES),
        "managed vectors": (*vectors(faiss.Unified), UNIT_BYTES),
        "scratch": (take_scratch, drop, MIB),
    },
    RuntimeError,
)

index = faiss.GpuIndexFlatL2(resources, DIMENSIONS)
index.add(np.eye(DIMENSIONS, dtype=np.float32))
distances, found = index.search(np.eye(DIMENSIONS, dtype=np.float32)[:5], 2)
say(vectors=index.ntotal, found=list(found.shape))
