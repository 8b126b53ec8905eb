"""How long a leader takes from the start of its process to its first bind, on 1,000 nodes.

`running-pods`: 5,000 pods run and hold cards, as their annotations say; the books are checked
against those. `new-nodes`: no leader has ever seen the nodes. The pod that is bound first is
created as the leader starts; kube-scheduler, which runs all the time, tries it in vain at first
and waits between its tries (the chart's 1 to 3 s), which counts.
API server, etcd and kube-scheduler are real (tests/cluster/fleet.py).

Where this machine runs no cluster, it says why and ends with 3.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.report import asked, emit, say
from benchmarks.scenarios import registered
from benchmarks.stand import BenchmarkFailed
from hamid.codec.allocation_record import encode_allocation
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare
from hamid.model.names import POD_ALLOCATION
from hamid.model.request import ContainerKind
from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import ClusterUnavailable
from tests.cluster.rawapi import Call, pods_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.fleet import Fleet

BENCH: Final = "coldstart"
CANNOT: Final = 3
DEADLINE_S: Final = 120
MEMORY_MIB: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: int = 1000
    pods: int = 5000
    rounds: int = 3


def main(size: Size) -> None:
    """Start the leader again and again, first on new nodes."""
    with running_fleet(nodes=0) as fleet:
        fleet.replicas["1"].stop()
        say(f"{BENCH}: {size.nodes} nodes are created")
        names = [f"gpu-{number:04}" for number in range(size.nodes)]
        fleet.create_nodes(names)
        emit(BENCH, "new-nodes", unit="s", samples=[_start(fleet, "new", size, pods=0)])
        say(f"{BENCH}: {size.pods} pods are created and bound")
        _run_pods(fleet, names, size.pods)
        taken_s = [
            _start(fleet, f"first-{number}", size, pods=size.pods) for number in range(size.rounds)
        ]
        emit(BENCH, "running-pods", unit="s", samples=taken_s)


def _start(fleet: Fleet, name: str, size: Size, *, pods: int) -> float:
    """Seconds from the leader's start to the first bind; the leader is stopped again."""
    leader = fleet.replicas["1"]
    begun_s = time.monotonic()
    leader.start()
    fleet.create_pods([gpu_pod(name)])
    taken_s = fleet.watch.wait_bound([name], timeout_s=DEADLINE_S) - begun_s
    say(f"{BENCH}: {taken_s:.2f} s")
    books = fleet.books()
    if books.differences() or books.pods != pods + 1:
        raise BenchmarkFailed(f"{books.pods} pods; the books are wrong: {books.differences()}")
    if len(books.led) != size.nodes * 8:
        raise BenchmarkFailed(f"the leader knows {len(books.led)} cards")
    fleet.delete_pods([name])
    leader.stop()
    return taken_s


def _run_pods(fleet: Fleet, nodes: Sequence[str], count: int) -> None:
    """Pods that run and hold cards, one card after another, all nodes alike."""
    names = [f"running-{number}" for number in range(count)]
    pods = {
        pod["metadata"]["name"]: pod
        for pod in fleet.api.call_all(
            # Of another scheduler, so that ours leaves them alone until they are bound.
            Call(method="POST", path=pods_path(), body=gpu_pod(name, schedulerName="nobody"))
            for name in names
        )
    }
    fleet.api.call_all(
        _binding(name, pods[name]["metadata"]["uid"], nodes[number % len(nodes)], number)
        for number, name in enumerate(names)
    )
    fleet.report_running(names)


def _binding(name: str, uid: str, node: str, number: int) -> Call:
    devices = registered(node).devices
    share = DeviceShare(
        device_uuid=devices[number % len(devices)].device_uuid,
        memory_mib=MEMORY_MIB,
        core_percent=0,
    )
    container = ContainerAllocation(container_name="main", kind=ContainerKind.APP, shares=(share,))
    allocation = PodAllocation(pod_uid=uid, node_name=node, containers=(container,))
    annotations = {POD_ALLOCATION: encode_allocation(allocation)}
    body = {
        "metadata": {"name": name, "uid": uid, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Call(method="POST", path=f"{pods_path(name=name)}/binding", body=body)


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    try:
        main(Size(nodes=3, pods=5, rounds=1) if is_smallest else Size())
    except ClusterUnavailable as why:
        say(f"no cluster on this machine: {why}")
        sys.exit(CANNOT)
