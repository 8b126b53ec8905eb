"""Which of the pods that wait fit now, each beside those that are before it in the queue.

So many pods are named as there is room for, and no more: whoever wakes them wakes nobody in vain.
How well they fit is not asked here; that is for when they come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.quota import NO_CHARGE, charge, least_charge, overdrafts
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, place_on_node, with_allocation
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import place_within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hamid.model.allocation import PodAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound, Charge, Payer
    from hamid.model.request import PodRequest
    from hamid.sched.placement.policy import Policies

TRIES: Final = 5_000
"""Once a pod has been held against a node so many times, the next one waits; some 50 µs each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A pod that waits, and the nodes on which it may fit since it was last tried.

    Attributes:
        payer, bounds: whose quotas it is charged to, and what they leave.
        promised: room that is kept for others before it.
    """

    request: PodRequest
    node_names: Collection[str]
    payer: Payer | None = None
    bounds: tuple[Bound, ...] = ()
    promised: tuple[PodAllocation, ...] = ()


class Round(NamedTuple):
    """What a round has come to.

    Attributes:
        fitting: those that fit, in the order given, one after another.
        in_vain: those, by UID, that did not fit while nobody before them had taken anything.
        is_cut_short: some were left for another time.
    """

    fitting: tuple[PodRequest, ...]
    in_vain: frozenset[str]
    is_cut_short: bool


def fitting(
    waiters: Iterable[Waiter],
    nodes: Mapping[str, NodeSnapshot],
    *,
    policies: Policies,
    tries: int = TRIES,
) -> Round:
    """Hold the waiters against the nodes, one after another.

    Args:
        waiters: those that go first come first.
        nodes: as they are now, by name; a name that is not here fits nobody.
        policies: of the cluster.
        tries: after so many the other waiters are left for another time.
    """
    room = _Room(nodes, policies)
    found: list[PodRequest] = []
    in_vain: set[str] = set()
    charged: dict[Payer | None, Charge] = {}
    for waiter in waiters:
        if room.looks >= tries:
            return Round(tuple(found), frozenset(in_vain), is_cut_short=True)
        request, before = waiter.request, charged.get(waiter.payer, NO_CHARGE)
        bounds = tuple(_charged(bound, before) for bound in waiter.bounds)
        if not overdrafts(bounds, least_charge(request)) and (
            allocation := room.take(replace(waiter, bounds=bounds))
        ):
            charged[waiter.payer] = before + charge(allocation)
            found.append(request)
        elif not found:
            in_vain.add(request.pod_uid)
    return Round(tuple(found), frozenset(in_vain), is_cut_short=False)


class _Room:
    """What there is beside those that go first.

    Attributes:
        looks: how many times a pod was held against a node.
    """

    def __init__(self, nodes: Mapping[str, NodeSnapshot], policies: Policies) -> None:
        self.looks = 0
        self._nodes = dict(nodes)
        self._policies = policies
        self._measure = Fragmentation(Arrivals().typical)
        # Room only shrinks from here on: what did not fit for one does not for the next like it.
        self._hopeless: dict[
            tuple[PodRequest, Payer | None, tuple[PodAllocation, ...]], set[str]
        ] = {}

    def take(self, waiter: Waiter) -> PodAllocation | None:
        """Give the waiter room on the first of its nodes that has any."""
        request, payer = waiter.request, waiter.payer if waiter.bounds else None
        refusing = self._hopeless.setdefault((request.anonymous, payer, waiter.promised), set())
        for name in sorted(waiter.node_names):
            node = self._nodes.get(name)
            if node is None or name in refusing:
                continue
            self.looks += 1
            outcome = _placed(waiter, node, self._policies, self._measure)
            if isinstance(outcome, NodePlacement):
                allocation = outcome.allocation(request.pod_uid)
                after = with_allocation(node, allocation)
                self._nodes[name] = after.with_host_asked(request.host)
                return allocation
            refusing.add(name)
        return None


def _charged(bound: Bound, charge: Charge) -> Bound:
    """The bound with so much more used of it."""
    return replace(bound, used=bound.used + charge.of(bound.limit.resource))


def _placed(
    waiter: Waiter, node: NodeSnapshot, policies: Policies, measure: Fragmentation
) -> object:
    if not node.has_host_for(waiter.request.host):
        return None
    for allocation in waiter.promised:
        if allocation.node_name == node.node_name:
            node = with_allocation(node, allocation)
    if not waiter.bounds:
        return place_on_node(waiter.request, node, policies=policies, measure=measure)
    return place_within(
        waiter.request, node, bounds=waiter.bounds, policies=policies, measure=measure
    )
