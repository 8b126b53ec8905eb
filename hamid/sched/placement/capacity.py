"""How many more pods of one shape fit, and where: what the nodes take beside all that is promised.

A pod of one container is counted on the cards, exactly:

    copies of a card   = min(free slots, free MiB // asked MiB, free cores // asked cores),
                         or 1 of an unused card and 0 of a used one, for whom it must be alone
    pods on a group    = the most n for which Σ min(copies, n) ≥ n × cards of one pod
    pods on a node     = the sum over its groups, and no more than its host has room for

A group is all cards of a node, or those of one NUMA node where the pod is bound to it. So many
fit; a policy that chooses badly among cards may reach fewer with pods of several cards.

A pod of several containers is placed again and again until the node refuses, as if they came one
after another.

CPU and memory of a node are kube-scheduler's to judge when pods come; here they bound the count, so
that it is not promised what it would refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hamid.model.node import NO_HOST
from hamid.model.quantities import MemoryMib
from hamid.model.request import ContainerRequest, PodRequest, PolicyName
from hamid.sched.placement import fit
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.mutex import is_in_use
from hamid.sched.placement.place import (
    NodePlacement,
    Unplaceable,
    in_order,
    place_on_node,
    with_allocation,
)
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.node import HostAmount, NodeSnapshot

_MANY: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """How many pods of the shape one node takes."""

    node_name: str
    pod_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many pods of a shape fit; `nodes` are those that take any, most first, then by name."""

    pod_count: int
    nodes: tuple[NodeCapacity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resettled:
    """What becomes of pods that must leave their nodes.

    Attributes:
        nodes: with those that found room on them.
        homeless: those that fit nowhere any more.
    """

    nodes: tuple[NodeSnapshot, ...]
    homeless: tuple[PodRequest, ...]


def capacity(request: PodRequest, nodes: Iterable[NodeSnapshot], *, policies: Policies) -> Capacity:
    """Return how many pods like this one the nodes take beside all that is promised.

    Args:
        request: asks for at least one device.
        nodes: those that may take it.
        policies: of the cluster; those of the pod count before them.
    """
    return Counting(request, policies).over(nodes)


class Counting:
    """The same, where nodes are counted more than once: one that has not changed costs nothing.

    Args:
        request: asks for at least one device.
        policies: of the cluster; those of the pod count before them.
    """

    def __init__(self, request: PodRequest, policies: Policies) -> None:
        self._request = request
        self._wanted = policies.for_request(request)
        self._measure = Fragmentation(Arrivals().typical)
        self._counted: dict[str, tuple[NodeSnapshot, int]] = {}

    def over(self, nodes: Iterable[NodeSnapshot]) -> Capacity:
        """How many the nodes take."""
        found = [
            NodeCapacity(node_name=node.node_name, pod_count=count)
            for node in nodes
            if (count := self.on(node))
        ]
        found.sort(key=lambda each: (-each.pod_count, each.node_name))
        return Capacity(pod_count=sum(each.pod_count for each in found), nodes=tuple(found))

    def on(self, node: NodeSnapshot) -> int:
        """How many the node takes."""
        known = self._counted.get(node.node_name)
        if known is not None and known[0] is node:
            return known[1]
        most = _host_copies(self._request.host, node)
        if len(self._request.requests) == 1:
            count = min(most, _on_cards(self._request, in_order(node), self._wanted))
        else:
            count = _placed(self._request, node, self._wanted, self._measure, most)
        self._counted[node.node_name] = node, count
        return count


def remaining(
    nodes: Iterable[NodeSnapshot],
    *,
    without_nodes: Collection[str] = (),
    without_cards: Collection[str] = (),
) -> tuple[NodeSnapshot, ...]:
    """The nodes as they were if some were drained and some cards lost."""
    left = (node for node in nodes if node.node_name not in without_nodes)
    if not without_cards:
        return tuple(left)
    return tuple(
        replace(node, cordoned=node.cordoned | lost)
        if (
            lost := {
                u.device.device_uuid for u in node.usages if u.device.device_uuid in without_cards
            }
        )
        else node
        for node in left
    )


def freed(
    node: NodeSnapshot, allocation: PodAllocation, *, is_initialized: bool = False
) -> NodeSnapshot:
    """The node without what the pod holds; see `PodAllocation.holds`."""
    holds = allocation.holds(is_initialized=is_initialized)
    return replace(
        node,
        usages=tuple(
            usage
            if (hold := holds.get(usage.device.device_uuid)) is None
            else replace(
                usage,
                slots_used=usage.slots_used - hold.slots,
                memory_used_mib=usage.memory_used_mib - hold.memory_mib,
                core_used_percent=usage.core_used_percent - hold.core_percent,
                exclusive_count=usage.exclusive_count - hold.is_exclusive,
            )
            for usage in node.usages
        ),
    )


def resettled(
    requests: Iterable[PodRequest],
    nodes: Iterable[NodeSnapshot],
    *,
    policies: Policies,
    arrivals: Arrivals,
) -> Resettled:
    """Return what becomes of these pods, placed anew one after another, the largest first."""
    by_name = {node.node_name: node for node in nodes}
    placer = Placer(policies=policies, arrivals=arrivals)
    counts: dict[PodRequest, Counting] = {}
    homeless = []
    for request in sorted(requests, key=_size, reverse=True):
        room = {name: n for name, n in by_name.items() if n.has_host_for(request.host)}
        if len(request.requests) == 1:  # counting is cheap, and spares all that refuse a look
            counting = counts.setdefault(request.anonymous, Counting(request, policies))
            room = {name: node for name, node in room.items() if counting.on(node)}
        outcome = placer.place(request, room)
        if isinstance(outcome, Unplaceable):
            homeless.append(request)
            continue
        best = outcome.best
        node = with_allocation(by_name[best.node_name], best.allocation(request.pod_uid))
        by_name[best.node_name] = node.with_host_asked(request.host)
    return Resettled(nodes=tuple(by_name.values()), homeless=tuple(homeless))


def request_held(
    allocation: PodAllocation, *, namespace: str, pod_name: str, host: HostAmount = NO_HOST
) -> PodRequest:
    """What a pod that runs would ask for: what it was given; which cards it allows is not known.

    Args:
        allocation: what it was given.
        namespace: of the pod.
        pod_name: of the pod.
        host: what it asks of its host.
    """
    return PodRequest(
        pod_uid=allocation.pod_uid,
        namespace=namespace,
        pod_name=pod_name,
        container_names=tuple(c.container_name for c in allocation.containers),
        requests=tuple(
            ContainerRequest(
                container_name=container.container_name,
                kind=container.kind,
                device_count=len(container.shares),
                memory=MemoryMib(mib=max(share.memory_mib for share in container.shares)),
                core_percent=max(share.core_percent for share in container.shares),
            )
            for container in allocation.containers
            if container.shares
        ),
        host=host,
    )


def _size(request: PodRequest) -> tuple[int, int]:
    return (
        sum(c.device_count * c.core_percent for c in request.requests),
        sum(
            c.device_count * c.memory.mib
            for c in request.requests
            if isinstance(c.memory, MemoryMib)
        ),
    )


def _host_copies(host: HostAmount, node: NodeSnapshot) -> int:
    """How many times the node's processors and memory hold what the pod asks of them."""
    free, most = node.host_free, _MANY
    if free is None:
        return most
    if host.cpu_milli:
        most = min(most, free.cpu_milli // host.cpu_milli)
    if host.memory_mib:
        most = min(most, free.memory_mib // host.memory_mib)
    return max(most, 0)


def _on_cards(request: PodRequest, node: NodeSnapshot, wanted: Policies) -> int:
    (container,) = request.requests
    if PolicyName.MUTEX in wanted.node:
        if is_in_use(node):
            return 0
        return min(_on_cards(request, node, Policies(device=wanted.device)), 1)
    is_mutex = PolicyName.MUTEX in wanted.device
    groups: dict[int | None, list[int]] = {}
    for usage in node.usages:
        is_apart = request.is_numa_bound and container.device_count > 1
        group = usage.device.numa_node if is_apart else None
        if is_apart and group is None:
            continue
        is_cordoned = usage.device.device_uuid in node.cordoned
        copies = fit.copies(usage, container, request=request, is_cordoned=is_cordoned)
        if is_mutex:
            copies = 0 if usage.slots_used else min(copies, 1)
        groups.setdefault(group, []).append(copies)
    return sum(_pods(copies, container.device_count) for copies in groups.values())


def _pods(copies: Sequence[int], card_count: int) -> int:
    """The most pods of so many different cards each."""
    low, high = 0, sum(copies) // card_count
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(each, middle) for each in copies) >= middle * card_count:
            low = middle
        else:
            high = middle - 1
    return low


def _placed(
    request: PodRequest, node: NodeSnapshot, wanted: Policies, measure: Fragmentation, most: int
) -> int:
    count = 0
    while count < most:
        outcome = place_on_node(request, node, policies=wanted, measure=measure)
        if not isinstance(outcome, NodePlacement):
            break
        node = with_allocation(node, outcome.allocation(request.pod_uid))
        count += 1
    return count
