"""Whether a pod that fits nowhere would fit with something changed: tried on all nodes.

Each kind of its containers alone is refused by a node for shortfalls that say by how much at least
it must change (`distance`). Of a pod of more than `MOST_KINDS` they are not looked at, and its
containers are only packed onto a node: what fits so does fit, but a little more may, too. After
`LOOKS` at cards nothing more is tried, which only pods of many containers reach on many nodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.quota import QuotaResource, is_charge_fixed, least_charge, overdrafts
from hamid.model.request import ContainerKind
from hamid.sched.placement.change import applied
from hamid.sched.placement.distance import Distance
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, in_order
from hamid.sched.placement.room import has_room, room_of
from hamid.sched.placement.search import Search
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import place_within

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.sched.placement.change import Change
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal
    from hamid.sched.placement.room import Room

MOST_KINDS: Final = 4
LOOKS: Final = 100_000
_PACKING_TRIES: Final = 32


class Tried(NamedTuple):
    """A node, and why it refuses each kind of container alone; None where it would take it."""

    node: NodeSnapshot
    refusals: tuple[Distance | None, ...]


def alike(request: PodRequest) -> tuple[tuple[ContainerRequest, ...], ...]:
    """The containers, those together that ask for the same and find the same."""
    found: dict[Hashable, list[ContainerRequest]] = {}
    sidecar_count = 0
    for each in request.requests:
        # An app container finds all sidecars; one of the init phase those before it.
        before = None if each.kind is ContainerKind.APP else sidecar_count
        key = each.kind, each.device_count, each.memory, each.core_percent, before
        found.setdefault(key, []).append(each)
        sidecar_count += each.kind is ContainerKind.SIDECAR
    return tuple(map(tuple, found.values()))


class Trials:
    """Tries changes of one pod.

    Args:
        request: asks for at least one device.
        nodes: those that may take it.
        policies: of the cluster; those of the pod count before them.
        bounds: what quotas leave for the pod.
        known: refusals of `place` for the same.

    Attributes:
        kinds: its containers; those together that are alike.
        tried: nodes with cards, by name.
        has_room: the pod fits as it is, on one of them; then the others are missing.
        is_partial: not all was tried.
    """

    def __init__(
        self,
        request: PodRequest,
        nodes: Iterable[NodeSnapshot],
        policies: Policies,
        *,
        bounds: Sequence[Bound] = (),
        known: Mapping[str, Refusal] | None = None,
    ) -> None:
        self.request = request
        self.kinds = alike(request)
        self.tried: list[Tried] = []
        self.has_room = False
        self._is_many = len(self.kinds) > MOST_KINDS
        self._policies = policies
        self._bounds = bounds
        self._most_memory = next(
            (b.left for b in bounds if b.limit.resource is QuotaResource.MEMORY_MIB), None
        )
        self._measure = Fragmentation(Arrivals().typical)
        self._looks_left = LOOKS
        self._rooms: dict[str, tuple[tuple[DeviceUsage, ...], Room]] = {}
        self._asked: tuple[PodRequest | None, bool] = None, True
        self._try_as_it_is(nodes, known or {})

    @property
    def is_partial(self) -> bool:
        """Whether not all was tried."""
        return self._is_many or self._looks_left <= 0

    def _try_as_it_is(self, nodes: Iterable[NodeSnapshot], known: Mapping[str, Refusal]) -> None:
        alone = [replace(self.request, requests=kind[:1]) for kind in self.kinds]
        if self._is_many:
            alone = []
        is_known = len(self.request.requests) == 1
        for node in sorted(nodes, key=lambda n: n.node_name):
            if not node.usages:
                continue
            ordered = in_order(node)
            found: Sequence[Refusal | None]
            if is_known and node.node_name in known:
                found = (known[node.node_name],)
            else:
                found = [self._refusal(each, ordered) for each in alone]
            refusals = tuple(None if each is None else Distance(each) for each in found)
            self.tried.append(Tried(ordered, refusals))
            if not any(refusals) and self.fits(self.request, ordered):
                self.has_room = True
                return

    def _refusal(self, request: PodRequest, node: NodeSnapshot) -> Refusal | None:
        search = self._search(request, node)
        return search.refusal if search.run() is None else None

    def _search(
        self, request: PodRequest, node: NodeSnapshot, most_memory_mib: int | None = None
    ) -> Search:
        # Preferences cost time and change nothing here.
        return Search(
            request=request,
            node=node,
            policies=self._policies.for_request(request).conditions,
            measure=self._measure,
            most_memory_mib=most_memory_mib,
        )

    def fits(self, request: PodRequest, node: NodeSnapshot) -> bool:
        """Whether the pod would fit there, asking for this, within its quotas."""
        if not self.may_fit(request, node) or self._looks_left <= 0:
            return False
        is_bound = self._most_memory is not None and not is_charge_fixed(request)
        search = self._search(request, node, self._most_memory if is_bound else None)
        tries = len(request.requests) + _PACKING_TRIES
        shares = search.packed(tries) if self._is_many else search.run()
        # A packing looks at all cards for each container, before it begins.
        looks = search.tries + (len(request.requests) if self._is_many else 0)
        self._looks_left -= looks * len(node.usages)
        return shares is not None

    def may_fit(self, request: PodRequest, node: NodeSnapshot) -> bool:
        """Whether that is worth trying; see `has_room`."""
        known = self._rooms.get(node.node_name)
        if known is None or known[0] is not node.usages:
            known = self._rooms[node.node_name] = node.usages, room_of(node.usages)
        return self._is_within(request) and has_room(request, known[1])

    def _is_within(self, request: PodRequest) -> bool:
        """Whether quotas leave room for the least that it would be charged."""
        if self._asked[0] is not request:
            self._asked = request, not overdrafts(self._bounds, least_charge(request))
        return self._asked[1]

    def is_placed(self, change: Change) -> bool:
        """Whether the pod is placed with the change: by the same function as it will be."""
        tried = next(t for t in self.tried if t.node.node_name == change.node_name)
        request, (node,) = applied(change, self.request, (tried.node,))
        outcome = place_within(
            request, node, bounds=self._bounds, policies=self._policies, measure=self._measure
        )
        return isinstance(outcome, NodePlacement)
