"""Where a pod goes: the shares it would get on one node, and the ranking of all nodes.

How the containers of a pod add up on a device while they are placed, one after another in the
order of the spec, is the rule of `hamid.model.allocation`: what is checked here is what
`PodAllocation.holds` will book.

    an init container        runs beside the sidecars before it
    a sidecar, an app        runs beside all sidecars and app containers

Invariants:

1. A container's shares are on distinct devices.
2. A pod that asks for no device has nothing to be placed; callers do not bring it here.
3. Where the preferred choice for one container leaves no room for a later one, other choices are
   tried, up to `MAX_TRIES`, and then packings: a pod that fits is found to fit, unless it takes
   about as many containers as cards to fill large nodes without a gap.
4. A container is first offered the devices of the pod's plain init containers that no later
   container took over: the kubelet hands those slots on in just this way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.request import PolicyName
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.fit import share_on
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.policy import (
    BY_FRAGMENTATION,
    LOAD_ORDERINGS,
    host_cost,
    load_ppm,
    node_load_ppm,
)
from hamid.sched.placement.refusal import Refusal
from hamid.sched.placement.search import Search
from hamid.sched.placement.topology import best_linked, link_cost_between_nodes, numa_count
from hamid.sched.placement.typical import Arrivals, card_ask

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from hamid.model.device import DeviceShare, DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.fragmentation import Choice
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.typical import CardAsk


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """What a pod of some shape would get on one node.

    Attributes:
        containers: those with devices, in the order of the spec.
        load_ppm: how full the node would be with it; see `policy`.
        cost: by which nodes are ranked; the smaller the better, only compared among one pod's.
    """

    node_name: str
    containers: tuple[ContainerAllocation, ...]
    load_ppm: int
    cost: tuple[int, ...]

    def allocation(self, pod_uid: str) -> PodAllocation:
        """The same for this pod."""
        return PodAllocation(pod_uid=pod_uid, node_name=self.node_name, containers=self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod fits.

    Attributes:
        ranked: one or more nodes, best first.
        node_names: of the same.
        fitting_count: how many nodes fit; where only the best were wanted, more than are ranked.
        refusals: what each other node lacks.
    """

    ranked: Sequence[NodePlacement]
    node_names: tuple[str, ...]
    fitting_count: int
    refusals: Mapping[str, Refusal]

    @property
    def best(self) -> NodePlacement:
        """The node that was chosen."""
        return self.ranked[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """A pod fits nowhere; what each node lacks."""

    refusals: Mapping[str, Refusal]


def place(
    request: PodRequest,
    nodes: Iterable[NodeSnapshot],
    *,
    policies: Policies,
    measure: Fragmentation | None = None,
) -> Placement | Unplaceable:
    """Return all nodes that fit, ranked by policy and then by name, and what the others lack.

    Args:
        request: asks for at least one device.
        nodes: those that may take it.
        policies: of the cluster; those of the pod count before them.
        measure: for the policy `fragmentation`; a cluster's that has just begun unless given.
    """
    measure = measure or Fragmentation(Arrivals().typical)
    return ranked(
        {
            node.node_name: place_on_node(request, node, policies=policies, measure=measure)
            for node in nodes
        }
    )


def ranked(outcomes: Mapping[str, NodePlacement | Refusal]) -> Placement | Unplaceable:
    """Return the ranking of the nodes that fit, and the refusals of the others."""
    fitting: list[NodePlacement] = []
    refusals: dict[str, Refusal] = {}
    for node_name, outcome in outcomes.items():
        if isinstance(outcome, Refusal):
            refusals[node_name] = outcome
        else:
            fitting.append(outcome)
    if not fitting:
        return Unplaceable(refusals=refusals)
    fitting.sort(key=lambda found: (found.cost, found.node_name))
    return Placement(
        ranked=tuple(fitting),
        node_names=tuple(found.node_name for found in fitting),
        fitting_count=len(fitting),
        refusals=refusals,
    )


def place_on_node(
    request: PodRequest,
    node: NodeSnapshot,
    *,
    policies: Policies,
    measure: Fragmentation | None = None,
    most_memory_mib: int | None = None,
) -> NodePlacement | Refusal:
    """Return what the pod would get on the node, or all that stands against it; see `place`.

    Args:
        request: asks for at least one device.
        node: as it is now.
        policies: of the cluster; those of the pod count before them.
        measure: for the policy `fragmentation`; see `place`.
        most_memory_mib: what the pod may be charged at most (see `hamid.model.quota`).
    """
    if not node.usages:
        return Refusal((Shortfall(resource=Resource.REGISTRATION),))
    measure = measure or Fragmentation(Arrivals().typical)
    node = in_order(node)
    wanted = policies.for_request(request)
    is_choice = wanted == BY_FRAGMENTATION and most_memory_mib is None
    if is_choice and (ask := lone_ask(request)) is not None:
        choice = measure.choose(measure.view(node), measure.number(ask), request.host)
        if choice is not None:
            return chosen_placement(request, node, choice)
    search = Search(
        request=request,
        node=node,
        policies=wanted,
        measure=measure,
        most_memory_mib=most_memory_mib,
    )
    shares = search.run()
    if shares is None:
        return search.refusal
    return _searched_placement(request, node, shares, wanted.node, measure)


def _searched_placement(
    request: PodRequest,
    node: NodeSnapshot,
    shares: Sequence[tuple[DeviceShare, ...]],
    policies: Sequence[PolicyName],
    measure: Fragmentation,
) -> NodePlacement:
    """What the pod would get with these shares, and what the policies say of that."""
    containers = _containers(request, shares)
    allocation = PodAllocation(
        pod_uid=request.pod_uid, node_name=node.node_name, containers=containers
    )
    after = with_allocation(node, allocation).with_host_asked(request.host)

    def cost_by(name: PolicyName) -> int:
        if (by_load := LOAD_ORDERINGS.get(name)) is not None:
            return by_load(node_load_ppm(after, request.node_weights))
        if name is PolicyName.FRAGMENTATION:
            return measure.cost(node, after)
        if name is PolicyName.MUTEX:  # a condition
            return 0
        sets = [[position_of[s.device_uuid] for s in given] for given in shares]
        if name is PolicyName.NUMA:
            return sum(numa_count(node, positions) for positions in sets)
        return sum(link_cost_between_nodes(node.links, tuple(positions)) for positions in sets)

    position_of = {u.device.device_uuid: position for position, u in enumerate(node.usages)}
    return NodePlacement(
        node_name=node.node_name,
        containers=containers,
        load_ppm=load_ppm(after.usages),
        cost=(*(cost_by(name) for name in policies), *host_cost(policies, after)),
    )


def in_order(node: NodeSnapshot) -> NodeSnapshot:
    """The node with its devices by index, then UUID, as inventories have them."""
    keys = [(u.device.device_index, u.device.device_uuid) for u in node.usages]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if order == list(range(len(keys))):
        return node
    links = tuple(tuple(node.links[i][j] for j in order) for i in order) if node.links else ()
    return replace(node, usages=tuple(node.usages[i] for i in order), links=links)


def lone_ask(request: PodRequest) -> CardAsk | None:
    """What a pod asks of cards that is one container and names no single device."""
    selection = request.selection
    if len(request.requests) != 1 or selection.names_single_devices or request.is_numa_bound:
        return None
    return card_ask(request, request.requests[0])


def chosen_placement(request: PodRequest, node: NodeSnapshot, choice: Choice) -> NodePlacement:
    """What the pod of one container would get with these cards of the node.

    The measure finds cards in the same state equal; among those, links decide.
    """
    (container,) = request.requests
    positions = choice.positions
    if node.links:
        positions = best_linked(node.links, [_state(node, u) for u in node.usages], positions)
    shares = tuple(share_on(node.usages[p].device, container) for p in positions)
    by_position = dict(zip(positions, shares, strict=True))
    return NodePlacement(
        node_name=node.node_name,
        containers=_containers(request, [shares]),
        load_ppm=load_ppm(
            usage.with_share(by_position[position]) if position in by_position else usage
            for position, usage in enumerate(node.usages)
        ),
        cost=(-choice.score,),
    )


def _state(node: NodeSnapshot, usage: DeviceUsage) -> Hashable:
    device = usage.device
    return (
        device.model,
        device.memory_mib,
        device.core_percent,
        device.slot_count,
        device.mode,
        device.is_healthy,
        device.device_uuid in node.cordoned,
        usage.slots_used,
        usage.memory_used_mib,
        usage.core_used_percent,
        usage.exclusive_count,
    )


def _containers(
    request: PodRequest, shares: Sequence[tuple[DeviceShare, ...]]
) -> tuple[ContainerAllocation, ...]:
    return tuple(
        ContainerAllocation(
            container_name=container.container_name,
            kind=container.kind,
            shares=given,
            priority=container.priority,
        )
        for container, given in zip(request.requests, shares, strict=True)
    )


def with_allocation(node: NodeSnapshot, allocation: PodAllocation) -> NodeSnapshot:
    """The node with the allocation on its devices."""
    holds = allocation.holds()
    return replace(
        node,
        usages=tuple(
            usage.with_hold(hold) if (hold := holds.get(usage.device.device_uuid)) else usage
            for usage in node.usages
        ),
    )
