"""faiss on a static CUDA runtime of 10.x: vectors in device and in managed memory, scratch, a search."""

import faiss
import numpy as np
from routes import CHUNK_BYTES, MIB, UNIT_BYTES, say, try_routes

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


def with_handles():
    own = faiss.StandardGpuResources()
    own.noTempMemory()
    faiss.GpuIndexFlatL2(own, DIMENSIONS)
    return own


# faiss ends the process where it cannot have a handle of cuBLAS: all have theirs before the card is full.
idle = [with_handles() for _ in range(1024 * MIB // CHUNK_BYTES + 16)]


def take_scratch(size):
    idle[-1].setTempMemory(size)
    return idle.pop()


def give_scratch(own):
    own.noTempMemory()
    idle.append(own)


say(devices=faiss.get_num_gpus())
try_routes(
    {
        "vectors": (*vectors(None), UNIT_BYTES),
        "managed vectors": (*vectors(faiss.Unified), UNIT_BYTES),
        "scratch": (take_scratch, give_scratch, MIB),
    },
    RuntimeError,
)

index = faiss.GpuIndexFlatL2(resources, DIMENSIONS)
index.add(np.eye(DIMENSIONS, dtype=np.float32))
distances, found = index.search(np.eye(DIMENSIONS, dtype=np.float32)[:5], 2)
say(vectors=index.ntotal, found=list(found.shape))
