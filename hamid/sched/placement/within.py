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
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.over_quota import QuotaRefusal
from hamid.sched.placement.place import NodePlacement, Placement, Unplaceable, place_on_node
from hamid.sched.placement.ranking import Selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound
    from hamid.model.request import PodRequest
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal
    from hamid.sched.placement.typical import Typical


ENOUGH: Final = 32


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
    typical: Typical,
) -> Placement | Unplaceable:
    """Return the outcome without what the bounds do not leave room for.

    Args:
        request: one to which `quota_refusal` has nothing to say.
        outcome: of `place` for it.
        bounds: of the pod's quotas.
        nodes: those of the outcome, by name.
        policies: of the cluster; those of the pod count before them.
        typical: as for the policy `fragmentation`.
    """
    bound = next((b for b in bounds if b.limit.resource is QuotaResource.MEMORY_MIB), None)
    if bound is None or is_charge_fixed(request) or not isinstance(outcome, Placement):
        return outcome
    sizes = _card_sizes(nodes[name] for name in outcome.node_names)
    if _mib_on(request, max(sizes)) <= bound.left:
        return outcome
    if _mib_on(request, min(sizes)) > bound.left:
        refusal = _refusal(request, bound, [nodes[name] for name in outcome.node_names])
        return Unplaceable(
            refusals={**outcome.refusals, **dict.fromkeys(outcome.node_names, refusal)}
        )
    measure = Fragmentation(typical)
    return _sorted_out(request, outcome, bound, nodes=nodes, policies=policies, measure=measure)


def _sorted_out(
    request: PodRequest,
    outcome: Placement,
    bound: Bound,
    *,
    nodes: Mapping[str, NodeSnapshot],
    policies: Policies,
    measure: Fragmentation,
) -> Placement | Unplaceable:
    """The outcome with only those nodes that have cards within the bound."""
    kept: list[int] = []
    smaller: list[NodePlacement] = []
    over: list[str] = []
    charges: dict[int, int] = {}  # by the memory of the cards, which are of few sizes
    for rank, name in enumerate(outcome.node_names):
        node = nodes[name]
        sizes = [usage.device.memory_mib for usage in node.usages]
        least, most = (
            charges.get(size) or charges.setdefault(size, _mib_on(request, size))
            for size in (min(sizes), max(sizes))
        )
        if most <= bound.left:  # whichever cards are chosen
            kept.append(rank)
        elif least > bound.left:
            over.append(name)
        elif charge(outcome.ranked[rank].allocation(request.pod_uid)).memory_mib <= bound.left:
            kept.append(rank)
        elif len(kept) + len(smaller) < ENOUGH and (
            other := _smaller(request, node, bound, policies, measure)
        ):
            smaller.append(other)
        else:
            over.append(name)
    smaller.sort(key=lambda found: (found.cost, found.node_name))
    refusal = _refusal(request, bound, [nodes[name] for name in over])
    refusals = {**outcome.refusals, **dict.fromkeys(over, refusal)}
    if not kept and not smaller:
        return Unplaceable(refusals=refusals)
    names = (*(outcome.node_names[rank] for rank in kept), *(each.node_name for each in smaller))
    best = Selected(outcome.ranked, kept, smaller)
    return Placement(ranked=best, node_names=names, refusals=refusals)


def place_within(
    request: PodRequest,
    node: NodeSnapshot,
    *,
    bounds: Sequence[Bound],
    policies: Policies,
    typical: Typical,
) -> NodePlacement | Refusal:
    """Return what the pod gets on the node within the bounds, or all that stands against it."""
    if (refusal := quota_refusal(request, bounds)) is not None:
        return refusal
    found = place_on_node(request, node, policies=policies, measure=Fragmentation(typical))
    if not isinstance(found, NodePlacement):
        return found
    outcome = within(
        request,
        Placement(ranked=(found,), node_names=(node.node_name,), refusals={}),
        bounds=bounds,
        nodes={node.node_name: node},
        policies=policies,
        typical=typical,
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


def _refusal(request: PodRequest, bound: Bound, nodes: Sequence[NodeSnapshot]) -> QuotaRefusal:
    sizes = _card_sizes(nodes)
    asked = _mib_on(request, min(sizes, default=0))
    over = Overdraft(bound=bound, asked=asked, is_least=len(sizes) > 1)
    return QuotaRefusal(request.namespace, [over])


def _card_sizes(nodes: Iterable[NodeSnapshot]) -> set[int]:
    return {usage.device.memory_mib for node in nodes for usage in node.usages}


def _mib_on(request: PodRequest, device_memory_mib: int) -> int:
    return charge_on(request, device_memory_mib=device_memory_mib).memory_mib
