"""Decisions a second, and how long one takes, on the openb trace: all in, on one thread.

All in: the choice, the allocation, and the books of the node brought up to date, for pods that come
as in `bench-packing` until the cluster is full and beyond. At 1,213 nodes of 6,212 GPUs, and at about
four times as many. Times are processor time of this thread: what other programs do meanwhile does
not count.

`/leader` is what the leader does for each pod that asks for cards: kube-scheduler shows it all nodes
whose hosts have room, and it finds the best and some runners-up, and what every other node lacks.
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
from hamid.sched.placement.place import Placement
from hamid.sched.placement.policy import BY_FRAGMENTATION
from hamid.sched.placement.rows import Placer
from hamid.sched.verdicts import RUNNERS_UP_KEPT
from hamid.sim.chooser import ProductChooser
from hamid.sim.replay import Replay
from hamid.sim.workload import resampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sim.chooser import Chooser, Chosen
    from hamid.sim.replay import Outcome
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


class Leading:
    """A chooser that does as the leader does; pods without cards go by the measure.

    Attributes:
        choice_s: how long each choice of cards took.
    """

    def __init__(self) -> None:
        self.choice_s: list[float] = []
        self._placer = Placer(policies=BY_FRAGMENTATION)
        self._without_cards = ProductChooser()
        self._nodes: dict[str, NodeSnapshot] = {}

    def put(self, node: NodeSnapshot) -> None:
        """The node is new, or has changed."""
        self._without_cards.put(node)
        self._nodes[node.node_name] = node

    def choose(self, request: PodRequest) -> Chosen | None:
        """Where the pod goes; None where it fits nowhere."""
        if not request.requests:
            return self._without_cards.choose(request)
        shown = {n: node for n, node in self._nodes.items() if node.has_host_for(request.host)}
        begun_s = time.thread_time()
        self._placer.arrivals.observe(request)
        outcome = self._placer.place(request, shown, wanted=RUNNERS_UP_KEPT + 1)
        best = outcome.best if isinstance(outcome, Placement) else None
        self.choice_s.append(time.thread_time() - begun_s)
        return None if best is None else (best.node_name, best.containers)


def measure(count: int, load_percent: float) -> None:
    """Print the lines of one size."""
    outcome = _replay(ProductChooser(), count, load_percent)
    _emit(str(count), outcome.choice_s)
    leading = Leading()
    _replay(leading, count, load_percent)
    _emit(f"{count}/leader", leading.choice_s)


def _emit(case: str, choice_s: Sequence[float]) -> None:
    emit(BENCH, case, unit="/s", value=len(choice_s) / sum(choice_s))
    samples_ms = [second * MS_PER_S for second in choice_s]
    emit(BENCH, f"{case}/decision", unit="ms", samples=samples_ms)


def _replay(chooser: Chooser, count: int, load_percent: float) -> Outcome:
    tasks = tasks_of("default")
    nodes = sized(nodes_of(), count)
    replay = Replay(nodes, chooser, clock=time.thread_time)
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
    try:
        return replay.run(arrivals, has_curve=False)
    finally:
        gc.unfreeze()


def main() -> None:
    """Print the lines of all sizes."""
    if asked(__doc__):
        measure(20, 20.0)
        return
    for count in SIZES:
        measure(count, 130.0)


if __name__ == "__main__":
    main()
