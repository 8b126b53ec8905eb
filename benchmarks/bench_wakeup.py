"""How long a pod that waits goes on waiting once there is room: until it is bound.

Real API server and kube-scheduler, hamid's daemon leading, simulated nodes whose cards are all
held whole. Then one becomes free, as a case says, and the clock runs until the API server shows
the waiting pod with a node. Nothing else goes on in the cluster: no chance event wakes the pod.
"""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.report import asked, emit, say
from benchmarks.scenarios import registered
from benchmarks.stand import BenchmarkFailed
from hamid.codec.allocation_record import decode_allocation
from hamid.codec.node_annotation import encode_node_inventory
from hamid.model.names import DEVICE_CORDON, NODE_REGISTER, POD_ALLOCATION
from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import ClusterUnavailable
from tests.cluster.rawapi import CallFailed, patch_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.fleet import Fleet

BENCH: Final = "wakeup"
PORT: Final = 19443
CARDS_PER_NODE: Final = 8
CROWD: Final = 100
KNOWN_TRIES: Final = 1_000
QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
PATIENCE_S: Final = 400
"""More than kube-scheduler's own flush of pods that nothing has woken, five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: int = 4
    pods_gone: int = 50
    others: int = 10


@dataclass(slots=True, kw_only=True)
class Crowded:
    """A fleet without a free card."""

    fleet: Fleet
    holders: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def fill(self, count: int) -> None:
        """Take so many cards."""
        names = [f"holder-{next(self.numbers)}" for _ in range(count)]
        self.fleet.create_pods(gpu_pod(name, memory_mib=None) for name in names)
        self.fleet.watch.wait_bound(names)
        self.holders += names

    def wait(self, count: int = 1) -> list[str]:
        """The names of so many pods that were refused."""
        names = [f"waiter-{next(self.numbers)}" for _ in range(count)]
        self.fleet.create_pods(gpu_pod(name, memory_mib=None) for name in names)
        watch = self.fleet.watch
        if not watch.wait_for(lambda: all(is_refused(watch.pods.get(name)) for name in names)):
            raise BenchmarkFailed(f"{names} were not refused")
        return names

    def timed(self, waiters: list[str], free: Callable[[], None]) -> float:
        """Seconds from when room becomes free until one of these is bound; it holds from then."""
        watch = self.fleet.watch

        def bound() -> list[str]:
            return [name for name in waiters if name in watch.bound_at_s]

        begun = time.monotonic()
        free()
        if not watch.wait_for(bound, timeout_s=PATIENCE_S):
            raise BenchmarkFailed(f"none of {waiters} is bound after {PATIENCE_S} s")
        (woken,) = bound()
        waiters.remove(woken)
        self.holders.append(woken)
        return watch.bound_at_s[woken] - begun

    def leave(self, name: str) -> None:
        """Let this holder be gone."""
        self.holders.remove(name)
        self.fleet.delete_pods([name])

    def bound_by_quota(self, cards: int) -> None:
        """Let a quota allow so many cards, and return once the leader knows."""
        self.set_quota(cards)
        leader = self.fleet.leader()
        for _ in range(KNOWN_TRIES):
            for found in leader.page("cache")["quotas"]:
                if found["quota"]["limits"][0]["hard"] == cards:
                    return
        raise BenchmarkFailed("the leader does not learn of the quota")

    def set_quota(self, cards: int) -> None:
        """Let a quota allow so many cards."""
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "cards"},
            "spec": {"hard": {"limits.nvidia.com/gpu": str(cards)}},
        }
        try:
            self.fleet.api.call("POST", QUOTAS, body)
        except CallFailed:  # it is there
            self.fleet.api.call_all([patch_call(f"{QUOTAS}/cards", {"spec": body["spec"]})])

    def annotation(self, node: str, key: str, value: str | None) -> Callable[[], None]:
        """What gives the node this annotation."""
        return lambda: self.fleet.annotate_node(node, {key: value})

    def card_of(self, name: str) -> tuple[str, str]:
        """The node and the card that the pod holds."""
        pod = self.fleet.watch.pods[name]
        found = decode_allocation(pod["metadata"]["annotations"][POD_ALLOCATION])
        return found.node_name, found.containers[0].shares[0].device_uuid


def is_refused(pod: dict[str, object] | None) -> bool:
    """Whether kube-scheduler has tried the pod and says so."""
    status = (pod or {}).get("status")
    conditions = status.get("conditions") or () if isinstance(status, dict) else ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def pods_gone(crowd: Crowded, count: int) -> list[float]:
    """The holder of a card is deleted."""
    return [crowd.timed(crowd.wait(), lambda: crowd.leave(crowd.holders[0])) for _ in range(count)]


def pods_gone_in_crowd(crowd: Crowded, count: int) -> list[float]:
    """The same, with many pods waiting for the card."""
    waiters = crowd.wait(CROWD)
    taken = [crowd.timed(waiters, lambda: crowd.leave(crowd.holders[0])) for _ in range(count)]
    crowd.fleet.delete_pods(waiters)
    crowd.fleet.watch.wait_gone(waiters)
    return taken


def cordons_lifted(crowd: Crowded, count: int) -> list[float]:
    """A card that nobody holds was cordoned, and is no more."""
    taken = []
    for _ in range(count):
        node, card = crowd.card_of(crowd.holders[0])
        crowd.fleet.annotate_node(node, {DEVICE_CORDON: card})
        crowd.leave(crowd.holders[0])
        taken.append(crowd.timed(crowd.wait(), crowd.annotation(node, DEVICE_CORDON, None)))
    return taken


def cards_healed(crowd: Crowded, count: int) -> list[float]:
    """A card that nobody holds was unhealthy, and is healthy again."""
    taken = []
    for _ in range(count):
        node, card = crowd.card_of(crowd.holders[0])
        well = registered(node)
        sick = replace(
            well,
            devices=tuple(
                replace(d, is_healthy=False) if d.device_uuid == card else d for d in well.devices
            ),
        )
        crowd.fleet.annotate_node(node, {NODE_REGISTER: encode_node_inventory(sick)})
        crowd.leave(crowd.holders[0])
        text = encode_node_inventory(well)
        taken.append(crowd.timed(crowd.wait(), crowd.annotation(node, NODE_REGISTER, text)))
    return taken


def nodes_back(crowd: Crowded, count: int) -> list[float]:
    """A node with a card that nobody holds was deleted, and is there again; its pods never left."""
    taken = []
    for _ in range(count):
        node, _ = crowd.card_of(crowd.holders[0])
        crowd.fleet.api.call("DELETE", f"/api/v1/nodes/{node}")
        crowd.leave(crowd.holders[0])
        taken.append(crowd.timed(crowd.wait(), partial(crowd.fleet.create_nodes, [node])))
    return taken


def quotas_raised(crowd: Crowded, count: int) -> list[float]:
    """A card is free, but the namespace's quota was used up; it is raised by one."""
    taken = []
    for _ in range(count):
        crowd.leave(crowd.holders[0])
        crowd.bound_by_quota(len(crowd.holders))
        more = len(crowd.holders) + 1
        taken.append(crowd.timed(crowd.wait(), partial(crowd.set_quota, more)))
    crowd.fleet.api.call("DELETE", f"{QUOTAS}/cards")
    return taken


@contextmanager
def crowded(size: Size) -> Iterator[Crowded]:
    """A fleet without a free card, for as long as the block lasts."""
    with running_fleet(nodes=size.nodes, port=PORT) as fleet:
        crowd = Crowded(fleet=fleet)
        crowd.fill(size.nodes * CARDS_PER_NODE)
        yield crowd


def main() -> None:
    """All cases."""
    size = Size(nodes=1, pods_gone=2, others=1) if asked(__doc__) else Size()
    try:
        with crowded(size) as crowd:
            for case, act, count in (
                ("pod-gone", pods_gone, size.pods_gone),
                (f"pod-gone/{CROWD}-waiting", pods_gone_in_crowd, size.others),
                ("cordon-lifted", cordons_lifted, size.others),
                ("card-healthy", cards_healed, size.others),
                ("node-back", nodes_back, size.others),
                ("quota-raised", quotas_raised, size.others),
            ):
                say(f"{case}, {count} times")
                emit(BENCH, case, unit="s", samples=act(crowd, count))
            crowd.fleet.books().check()
    except ClusterUnavailable as why:
        say(f"cannot run here: {why}")
        raise SystemExit(3) from why


if __name__ == "__main__":
    main()
