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
   tried, up to `MAX_TRIES`: on small nodes, a pod that fits is found to fit.
4. A container is first offered the devices of the pod's plain init containers that no later
   container took over: the kubelet hands those slots on in just this way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.request import ContainerKind
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.fit import share_on, shortfalls
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.policy import (
    BY_FRAGMENTATION,
    LOAD_ORDERINGS,
    device_load_ppm,
    load_ppm,
)
from hamid.sched.placement.refusal import Refusal
from hamid.sched.placement.typical import Arrivals, card_ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.device import DeviceShare, DeviceUsage, DeviceUuid
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest, PolicyName
    from hamid.sched.placement.fragmentation import Choice
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.typical import CardAsk

MAX_TRIES: Final = 512
"""Choices of devices tried for one pod on one node before it counts as not fitting."""


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
    cost: int

    def allocation(self, pod_uid: str) -> PodAllocation:
        """The same for this pod."""
        return PodAllocation(pod_uid=pod_uid, node_name=self.node_name, containers=self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod fits.

    Attributes:
        ranked: one or more nodes, best first.
        refusals: what each other node lacks.
    """

    ranked: tuple[NodePlacement, ...]
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
    return Placement(ranked=tuple(fitting), refusals=refusals)


def place_on_node(
    request: PodRequest,
    node: NodeSnapshot,
    *,
    policies: Policies,
    measure: Fragmentation | None = None,
) -> NodePlacement | Refusal:
    """Return what the pod would get on the node, or all that stands against it; see `place`."""
    if not node.usages:
        return Refusal((Shortfall(resource=Resource.REGISTRATION),))
    measure = measure or Fragmentation(Arrivals().typical)
    node = in_order(node)
    wanted = policies.for_request(request)
    if wanted == BY_FRAGMENTATION and (ask := lone_ask(request)) is not None:
        choice = measure.choose(measure.view(node), measure.number(ask), request.host)
        if choice is not None:
            return chosen_placement(request, node, choice)
    search = _Search(request=request, node=node, device_policy=wanted.device, measure=measure)
    shares = search.run()
    if shares is None:
        return search.refusal
    containers = _containers(request, shares)
    allocation = PodAllocation(
        pod_uid=request.pod_uid, node_name=node.node_name, containers=containers
    )
    after = with_allocation(node, allocation)
    load = load_ppm(after.usages)
    by_load = LOAD_ORDERINGS.get(wanted.node)
    return NodePlacement(
        node_name=node.node_name,
        containers=containers,
        load_ppm=load,
        cost=by_load(load) if by_load else measure.cost(node, after, request.host),
    )


def in_order(node: NodeSnapshot) -> NodeSnapshot:
    """The node with its devices by index, then UUID, as inventories have them."""
    usages = sorted(node.usages, key=lambda u: (u.device.device_index, u.device.device_uuid))
    return node if tuple(usages) == node.usages else replace(node, usages=tuple(usages))


def lone_ask(request: PodRequest) -> CardAsk | None:
    """What a pod asks of cards that is one container with devices and names no UUID."""
    selection = request.selection
    if len(request.requests) != 1 or selection.use_uuids or selection.avoid_uuids:
        return None
    return card_ask(request, request.requests[0])


def chosen_placement(request: PodRequest, node: NodeSnapshot, choice: Choice) -> NodePlacement:
    """What the pod of one container would get with these cards of the node."""
    (container,) = request.requests
    shares = tuple(share_on(node.usages[p].device, container) for p in choice.positions)
    by_position = dict(zip(choice.positions, shares, strict=True))
    return NodePlacement(
        node_name=node.node_name,
        containers=_containers(request, [shares]),
        load_ppm=load_ppm(
            usage.with_share(by_position[position]) if position in by_position else usage
            for position, usage in enumerate(node.usages)
        ),
        cost=-choice.score,
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


@dataclass(frozen=True, slots=True)
class _Views:
    """Each device as the next container would find it: its index is that of the node's usages.

    Attributes:
        init: others' pods and this pod's sidecars.
        app: those, and this pod's app containers.
        reusable: devices of plain init containers that no later container took over.
    """

    init: tuple[DeviceUsage, ...]
    app: tuple[DeviceUsage, ...]
    reusable: frozenset[DeviceUuid] = frozenset()

    def of(self, kind: ContainerKind) -> tuple[DeviceUsage, ...]:
        return self.init if kind is ContainerKind.INIT else self.app

    def with_shares(self, kind: ContainerKind, shares: tuple[DeviceShare, ...]) -> _Views:
        uuids = {share.device_uuid for share in shares}
        if kind is ContainerKind.INIT:
            return replace(self, reusable=self.reusable | uuids)
        app = _with_shares(self.app, shares)
        init = _with_shares(self.init, shares) if kind is ContainerKind.SIDECAR else self.init
        return _Views(init=init, app=app, reusable=self.reusable - uuids)


def _with_shares(
    usages: tuple[DeviceUsage, ...], shares: tuple[DeviceShare, ...]
) -> tuple[DeviceUsage, ...]:
    by_uuid = {share.device_uuid: share for share in shares}
    return tuple(
        usage.with_share(share) if (share := by_uuid.get(usage.device.device_uuid)) else usage
        for usage in usages
    )


class _Search:
    """Depth-first over the containers, the preferred devices first.

    Devices of one container do not influence each other, so that a single container needs no
    second try; only a later container can make an earlier choice a bad one.
    """

    def __init__(
        self,
        *,
        request: PodRequest,
        node: NodeSnapshot,
        device_policy: PolicyName,
        measure: Fragmentation,
    ) -> None:
        self._request = request
        self._node = node
        self._by_load = LOAD_ORDERINGS.get(device_policy)
        self._measure = measure
        self._tries_left = MAX_TRIES
        self._refused_at = -1
        self.refusal = Refusal(())

    def run(self) -> list[tuple[DeviceShare, ...]] | None:
        """The shares of each container, or None; then `refusal` says why."""
        usages = self._node.usages
        return self._descend(0, _Views(init=usages, app=usages))

    def _descend(self, depth: int, views: _Views) -> list[tuple[DeviceShare, ...]] | None:
        if depth == len(self._request.requests):
            return []
        container = self._request.requests[depth]
        candidates = self._candidates(depth, views)
        for shares in combinations(candidates, container.device_count):
            if self._tries_left <= 0:
                return None
            self._tries_left -= 1
            rest = self._descend(depth + 1, views.with_shares(container.kind, shares))
            if rest is not None:
                return [shares, *rest]
        return None

    def _candidates(self, depth: int, views: _Views) -> list[DeviceShare]:
        """The shares that would fit, best device first; notes the refusal if they are too few."""
        container = self._request.requests[depth]
        fitting: list[tuple[tuple[bool, int, int, str], DeviceShare]] = []
        lacking: list[Shortfall] = []
        unfit_count = 0
        for usage in views.of(container.kind):
            device = usage.device
            share = share_on(device, container)
            found = shortfalls(
                usage,
                share,
                request=self._request,
                is_cordoned=device.device_uuid in self._node.cordoned,
            )
            if found:
                unfit_count += 1
                lacking += found
                continue
            key = (
                device.device_uuid not in views.reusable,
                self._cost(usage, container, share),
                device.device_index,
                device.device_uuid,
            )
            fitting.append((key, share))
        if len(fitting) < container.device_count:
            self._refuse(depth, container, unfit_count, lacking)
        fitting.sort(key=lambda pair: pair[0])
        return [share for _, share in fitting]

    def _cost(self, usage: DeviceUsage, container: ContainerRequest, share: DeviceShare) -> int:
        if self._by_load is not None:
            return self._by_load(device_load_ppm(usage.with_share(share)))
        ask = card_ask(self._request, container)
        return self._measure.card_cost(usage, self._measure.number(ask))

    def _refuse(
        self, depth: int, container: ContainerRequest, unfit_count: int, lacking: list[Shortfall]
    ) -> None:
        """Keep the refusal of the deepest container, as the preferred choices led to it."""
        if depth <= self._refused_at:
            return
        self._refused_at = depth
        count = Shortfall(
            resource=Resource.DEVICE_COUNT,
            requested=container.device_count,
            used=unfit_count,
            capacity=len(self._node.usages),
        )
        self.refusal = Refusal((count, *lacking))
