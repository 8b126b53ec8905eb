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
    now, measure = dict(nodes), Fragmentation(Arrivals().typical)
    # Room only shrinks from here on: what did not fit for one does not for the next like it.
    hopeless: dict[tuple[PodRequest, Payer | None, tuple[PodAllocation, ...]], set[str]] = {}
    found: list[PodRequest] = []
    in_vain: set[str] = set()
    charged: dict[Payer | None, Charge] = {}
    for waiter in waiters:
        if tries <= 0:
            return Round(tuple(found), frozenset(in_vain), is_cut_short=True)
        request = waiter.request
        if not found:
            in_vain.add(request.pod_uid)
        before = charged.get(waiter.payer, NO_CHARGE)
        bounds = tuple(_charged(bound, before) for bound in waiter.bounds)
        if overdrafts(bounds, least_charge(request)):
            continue
        payer = waiter.payer if waiter.bounds else None
        refusing = hopeless.setdefault((request.anonymous, payer, waiter.promised), set())
        for name in sorted(waiter.node_names):
            node = now.get(name)
            if node is None or name in refusing:
                continue
            tries -= 1
            outcome = _placed(replace(waiter, bounds=bounds), node, policies, measure)
            if isinstance(outcome, NodePlacement):
                allocation = outcome.allocation(request.pod_uid)
                charged[waiter.payer] = before + charge(allocation)
                now[name] = with_allocation(node, allocation).with_host_asked(request.host)
                found.append(request)
                in_vain.discard(request.pod_uid)
                break
            refusing.add(name)
    return Round(tuple(found), frozenset(in_vain), is_cut_short=False)


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
