"""How long 100 pods take from create to bound when one node has to take them all.

One node of 8 cards with 20 slots each, nothing else to choose from, so that any lock on the node
would show. API server, etcd and kube-scheduler are real (tests/cluster/fleet.py).

Where this machine runs no cluster, it says why and ends with 3.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.report import asked, emit, say
from benchmarks.stand import BenchmarkFailed
from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import ClusterUnavailable

if TYPE_CHECKING:
    from tests.cluster.fleet import Fleet

BENCH: Final = "one-node"
CANNOT: Final = 3
SLOTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    pods: int = 100
    rounds: int = 5


def main(size: Size) -> None:
    """Bind all pods, a few times over."""
    with running_fleet(nodes=1, slots=SLOTS) as fleet:
        taken_s = [_bind(fleet, size.pods, number) for number in range(size.rounds)]
    emit(BENCH, f"{size.pods}-pods", unit="s", samples=taken_s)


def _bind(fleet: Fleet, count: int, number: int) -> float:
    names = [f"pod-{number}-{each}" for each in range(count)]
    begun_s = time.monotonic()
    fleet.create_pods(gpu_pod(name) for name in names)
    taken_s = fleet.watch.wait_bound(names, timeout_s=120) - begun_s
    books = fleet.books()
    if books.differences() or books.overbooked() or books.pods != count:
        raise BenchmarkFailed(f"the books are wrong: {books.differences()}")
    say(f"{BENCH}: {taken_s:.2f} s")
    fleet.delete_pods(names)
    fleet.watch.wait_gone(names)
    return taken_s


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    try:
        main(Size(pods=3, rounds=1) if is_smallest else Size())
    except ClusterUnavailable as why:
        say(f"no cluster on this machine: {why}")
        sys.exit(CANNOT)
