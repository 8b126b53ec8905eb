"""Decisions a second, and how long one takes, on the openb trace: all in, on one thread.

All in: the choice, the allocation, and the books of the node brought up to date, for pods that come
as in `bench-packing` until the cluster is full and beyond. At 1,213 nodes of 6,212 GPUs, and at about
four times as many. Times are processor time of this thread: what other programs do meanwhile does
not count.
"""

from __future__ import annotations

import gc
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks.report import MS_PER_S, asked, emit
from benchmarks.traces import nodes_of, tasks_of
from hamid.model.device import DeviceUuid
from hamid.sim.chooser import ProductChooser
from hamid.sim.replay import Replay
from hamid.sim.workload import resampled

if TYPE_CHECKING:
    from hamid.sim.workload import SimNode

BENCH: Final = "placement"
SEED: Final = 42
SIZES: Final = (1_213, 5_000)


def sized(nodes: tuple[SimNode, ...], count: int) -> list[SimNode]:
    """So many nodes: those of the trace, over and over."""
    found = []
    for number in range(count):
        node = nodes[number % len(nodes)]
        name = f"{node.name}-{number // len(nodes)}"
        devices = tuple(
            replace(device, device_uuid=DeviceUuid(f"{name}-{device.device_index}"))
            for device in node.devices
        )
        found.append(replace(node, name=name, devices=devices))
    return found


def measure(count: int, load_percent: float) -> None:
    """Print the lines of one size."""
    tasks = tasks_of("default")
    nodes = sized(nodes_of(), count)
    replay = Replay(nodes, ProductChooser(), clock=time.thread_time)
    arrivals = list(
        resampled(
            tasks,
            capacity_milli=replay.capacity_milli,
            load_percent=load_percent,
            rng=random.Random(SEED),
        )
    )
    gc.collect()
    gc.freeze()
    outcome = replay.run(arrivals, has_curve=False)
    samples_ms = [second * MS_PER_S for second in outcome.choice_s]
    case = str(count)
    emit(BENCH, case, unit="/s", value=len(samples_ms) / sum(outcome.choice_s))
    emit(BENCH, f"{case}/decision", unit="ms", samples=samples_ms)


def main() -> None:
    """Print the lines of all sizes."""
    if asked(__doc__):
        measure(20, 20.0)
        return
    for count in SIZES:
        measure(count, 130.0)


if __name__ == "__main__":
    main()
