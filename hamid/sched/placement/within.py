"""A placement as far as the quotas of the pod's namespace leave room for it.

Whether there is room depends on the node for pods that ask for a percentage alone: it is charged
in MiB of the card that is chosen. Where the policies choose cards that are too large, smaller
ones of the node are taken, so that a pod that fits somehow is not kept waiting. That takes a search
of each such node: once `ENOUGH` nodes have room, the others are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.model.quota import (
    Overdraft,
    QuotaResource,
    charge,
    charge_on,
    is_charge_fixed,
    least_charge,
    overdrafts,
)
from hamid.sched.placement.over_quota import QuotaRefusal
from hamid.sched.placement.place import NodePlacement, Placement, Unplaceable, place_on_node
from hamid.sched.placement.ranking import Selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound
    from hamid.model.request import PodRequest
    from hamid.sched.placement.fragmentation import Fragmentation
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal


_Charges = tuple[int, int]
"""What the pod would be charged on the smallest and on the largest cards of a node, in MiB."""

ENOUGH: Final = 16
"""A search takes a quarter of a millisecond; those that are left out are only runners-up."""


def quota_refusal(request: PodRequest, bounds: Sequence[Bound]) -> QuotaRefusal | None:
    """Why the pod may be on no node at all, whatever cards there are; None if it may be."""
    found = overdrafts(bounds, least_charge(request), is_least=not is_charge_fixed(request))
    return QuotaRefusal(request.namespace, found) if found else None


def within(
    request: PodRequest,
    outcome: Placement | Unplaceable,
    *,
    bounds: Sequence[Bound],
    nodes: Mapping[str, NodeSnapshot],
    policies: Policies,
    measure: Fragmentation,
) -> Placement | Unplaceable:
    """Return the outcome without what the bounds do not leave room for.

    Args:
        request: one to which `quota_refusal` has nothing to say.
        outcome: of `place` for it.
        bounds: of the pod's quotas.
        nodes: those of the outcome, by name.
        policies: of the cluster; those of the pod count before them.
        measure: for the policy `fragmentation`.
    """
    bound = next((b for b in bounds if b.limit.resource is QuotaResource.MEMORY_MIB), None)
    if bound is None or is_charge_fixed(request) or not isinstance(outcome, Placement):
        return outcome
    offered = [nodes[name] for name in outcome.node_names]
    largest = max({usage.device.memory_mib for node in offered for usage in node.usages})
    if charge_on(request, device_memory_mib=largest).memory_mib <= bound.left:
        return outcome
    charges = _charges(request, offered)
    if min(least for least, _ in charges) > bound.left:
        refusal = _refusal(request, bound, charges)
        return Unplaceable(
            refusals={**outcome.refusals, **dict.fromkeys(outcome.node_names, refusal)}
        )
    return _sorted_out(
        request, outcome, bound, charges, nodes=nodes, policies=policies, measure=measure
    )


def _sorted_out(
    request: PodRequest,
    outcome: Placement,
    bound: Bound,
    charges: Sequence[_Charges],
    *,
    nodes: Mapping[str, NodeSnapshot],
    policies: Policies,
    measure: Fragmentation,
) -> Placement | Unplaceable:
    """The outcome with only those nodes that have cards within the bound."""
    kept: list[int] = []
    smaller: list[NodePlacement] = []
    over: dict[str, _Charges] = {}
    for rank, (name, (least, most)) in enumerate(zip(outcome.node_names, charges, strict=True)):
        if most <= bound.left:  # whichever cards are chosen
            kept.append(rank)
        elif least > bound.left:
            over[name] = least, most
        elif len(kept) + len(smaller) >= ENOUGH:
            over[name] = most, most
        elif charge(outcome.ranked[rank].allocation(request.pod_uid)).memory_mib <= bound.left:
            kept.append(rank)
        elif other := _smaller(request, nodes[name], bound, policies, measure):
            smaller.append(other)
        else:  # its cards that are small enough are full
            over[name] = most, most
    smaller.sort(key=lambda found: (found.cost, found.node_name))
    refusal = _refusal(request, bound, over.values())
    refusals = {**outcome.refusals, **dict.fromkeys(over, refusal)}
    if not kept and not smaller:
        return Unplaceable(refusals=refusals)
    names = (*(outcome.node_names[rank] for rank in kept), *(each.node_name for each in smaller))
    best = Selected(outcome.ranked, kept, smaller)
    return Placement(ranked=best, node_names=names, fitting_count=len(names), refusals=refusals)


def place_within(
    request: PodRequest,
    node: NodeSnapshot,
    *,
    bounds: Sequence[Bound],
    policies: Policies,
    measure: Fragmentation,
) -> NodePlacement | Refusal:
    """Return what the pod gets on the node within the bounds, or all that stands against it."""
    if (refusal := quota_refusal(request, bounds)) is not None:
        return refusal
    found = place_on_node(request, node, policies=policies, measure=measure)
    if not isinstance(found, NodePlacement):
        return found
    outcome = within(
        request,
        Placement(ranked=(found,), node_names=(node.node_name,), fitting_count=1, refusals={}),
        bounds=bounds,
        nodes={node.node_name: node},
        policies=policies,
        measure=measure,
    )
    return outcome.best if isinstance(outcome, Placement) else outcome.refusals[node.node_name]


def _smaller(
    request: PodRequest,
    node: NodeSnapshot,
    bound: Bound,
    policies: Policies,
    measure: Fragmentation,
) -> NodePlacement | None:
    """The best that the bound leaves room for on this node."""
    found = place_on_node(
        request, node, policies=policies, measure=measure, most_memory_mib=bound.left
    )
    return found if isinstance(found, NodePlacement) else None


def _refusal(request: PodRequest, bound: Bound, charges: Iterable[_Charges]) -> QuotaRefusal:
    found = {each for both in charges for each in both}
    over = Overdraft(bound=bound, asked=min(found, default=0), is_least=len(found) > 1)
    return QuotaRefusal(request.namespace, [over])


def _charges(request: PodRequest, nodes: Iterable[NodeSnapshot]) -> list[_Charges]:
    by_size: dict[int, int] = {}  # cards are of few sizes

    def on(size: int) -> int:
        mib = by_size.get(size)
        if mib is None:
            mib = by_size[size] = charge_on(request, device_memory_mib=size).memory_mib
        return mib

    found = []
    for node in nodes:
        sizes = [usage.device.memory_mib for usage in node.usages]
        found.append((on(min(sizes)), on(max(sizes))))
    return found
