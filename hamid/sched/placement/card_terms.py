"""What each policy said of each card of a node when a pod was placed there: for people who ask why.

The smaller a cost, the better the card; a card that would not do has what it lacks instead. Costs
are those by which cards are really chosen:

    fragmentation    one card for a pod of one container: what the node's measure would be after,
                     as in `fragmentation`, so that the cost of the chosen card is the node's;
                     several cards: the free space of the card, in milli-cards, the fullest first;
                     otherwise what the ask costs on this card, were it alone in its node
    binpack, spread  the load of the card with the share, negated for `binpack`
    numa             NUMA nodes of the best set with this card
    topology-aware   rank of the best set with this card, from 0

`mutex` is a condition and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from hamid.model.request import PolicyName
from hamid.sched.placement.fit import share_on, shortfalls
from hamid.sched.placement.mutex import device_shortfalls
from hamid.sched.placement.place import in_order, lone_ask
from hamid.sched.placement.policy import BY_FRAGMENTATION, LOAD_ORDERINGS, device_load_ppm
from hamid.sched.placement.search import MAX_POOL
from hamid.sched.placement.topology import link_cost, numa_count
from hamid.sched.placement.typical import card_ask
from hamid.sched.placement.views import usages_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hamid.model.device import DeviceUsage, DeviceUuid
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.model.shortfall import Shortfall
    from hamid.sched.placement.fragmentation import Fragmentation
    from hamid.sched.placement.place import NodePlacement
    from hamid.sched.placement.policy import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTerms:
    """One card, as one container found it.

    Attributes:
        usage: what others held of it then, the pod's containers before this one included.
        is_chosen: the container was given it.
        costs: by policy, in the order in which they count; empty where the card would not do.
        lacking: why it would not do.
    """

    container_name: str
    usage: DeviceUsage
    is_chosen: bool
    costs: Mapping[PolicyName, int]
    lacking: tuple[Shortfall, ...] = ()


def card_terms(
    request: PodRequest,
    node: NodeSnapshot,
    placement: NodePlacement,
    *,
    policies: Policies,
    measure: Fragmentation,
) -> tuple[CardTerms, ...]:
    """All cards of the node as each container found them, in the order of the containers.

    Args:
        request: what was placed.
        node: as it was before.
        placement: what the pod got, or would have got, on this node.
        policies: of the cluster; those of the pod count before them.
        measure: by which it was decided.
    """
    ordered = in_order(node)
    wanted = policies.for_request(request)
    given = [c.shares for c in placement.containers]
    found: list[CardTerms] = []
    for depth, container in enumerate(request.requests):
        usages = usages_found(request, ordered, given[:depth])
        terms = _Terms(request, container, replace(ordered, usages=usages), wanted, measure)
        chosen = {share.device_uuid for share in given[depth]}
        found += terms.of_all(chosen)
    return tuple(found)


class _Terms:
    """One container on one node."""

    def __init__(
        self,
        request: PodRequest,
        container: ContainerRequest,
        node: NodeSnapshot,
        wanted: Policies,
        measure: Fragmentation,
    ) -> None:
        self._request = request
        self._container = container
        self._node = node
        self._measure = measure
        self._is_lone = wanted == BY_FRAGMENTATION and lone_ask(request) is not None
        self._is_mutex = PolicyName.MUTEX in wanted.device
        self._policies = tuple(name for name in wanted.device if name is not PolicyName.MUTEX)
        self._lacking = [self._shortfalls(usage) for usage in node.usages]
        self._fitting = [p for p, lacking in enumerate(self._lacking) if not lacking]

    def _shortfalls(self, usage: DeviceUsage) -> tuple[Shortfall, ...]:
        found = shortfalls(
            usage,
            share_on(usage.device, self._container),
            request=self._request,
            is_cordoned=usage.device.device_uuid in self._node.cordoned,
        )
        return found or (device_shortfalls(usage) if self._is_mutex else ())

    def of_all(self, chosen: set[DeviceUuid]) -> Iterator[CardTerms]:
        """The terms of each card, in the node's order."""
        for position, usage in enumerate(self._node.usages):
            does = position in self._fitting
            yield CardTerms(
                container_name=self._container.container_name,
                usage=usage,
                is_chosen=usage.device.device_uuid in chosen,
                costs={n: self._cost(n, position) for n in self._policies} if does else {},
                lacking=self._lacking[position],
            )

    def _cost(self, name: PolicyName, position: int) -> int:
        usage = self._node.usages[position]
        share = share_on(usage.device, self._container)
        if (by_load := LOAD_ORDERINGS.get(name)) is not None:
            return by_load(device_load_ppm(usage.with_share(share), self._request.load_weights))
        if name is PolicyName.NUMA:
            return self._best_set(position, lambda found: numa_count(self._node, found))
        if name is PolicyName.TOPOLOGY_AWARE:
            return self._best_set(position, lambda found: link_cost(self._node.links, found))
        if not self._is_lone:
            number = self._measure.number(card_ask(self._request, self._container))
            return self._measure.card_cost(usage, number)
        if self._container.device_count > 1:
            return self._measure.view(self._node).cards[position].space
        usages = list(self._node.usages)
        usages[position] = usage.with_share(share)
        after = replace(self._node, usages=tuple(usages)).with_host_asked(self._request.host)
        return self._measure.cost(self._node, after)

    def _best_set(self, position: int, cost: Callable[[tuple[int, ...]], int]) -> int:
        """Among the sets that are looked at: those with the first `MAX_POOL` cards that do."""
        count = self._container.device_count
        others: Sequence[int] = [p for p in self._fitting if p != position][: MAX_POOL - 1]
        sets = (tuple(sorted((position, *rest))) for rest in combinations(others, count - 1))
        return min((cost(found) for found in sets), default=0)
