"""The JSON of `explain` and `fit`; its fields are documented in `docs/explain.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hamid.sched.placement.explain import card_reasons, cluster_sentence
from hamid.sched.placement.place import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.capacity import Capacity, Resettled
    from hamid.sched.placement.change import Change
    from hamid.sched.placement.explain import CardReason
    from hamid.sched.placement.place import Unplaceable
    from hamid.sched.verdicts import Verdict

JsonObject = dict[str, Any]

NODES_SHOWN = 5


def pending_answer(
    request: PodRequest, outcome: Placement | Unplaceable, changes: Iterable[Change]
) -> JsonObject:
    """Why the pod waits, by what the nodes are now."""
    if isinstance(outcome, Placement):
        names = [found.node_name for found in outcome.ranked[:NODES_SHOWN]]
        count = len(outcome.ranked)
        return {
            "fits_now": names,
            "sentence": f"the cards of {count} node{'' if count == 1 else 's'} would do now, "
            f"best {names[0]}; kube-scheduler has yet to try again, or refuses for reasons of its own",
            "reasons": [],
            "changes": [],
        }
    return {
        "fits_now": [],
        "sentence": cluster_sentence(request, outcome.refusals),
        "reasons": [_reason(reason) for reason in card_reasons(request, outcome.refusals)],
        "changes": [_change(change) for change in changes],
    }


def _reason(reason: CardReason) -> JsonObject:
    return {
        "kind": reason.kind.value,
        "cards": reason.card_count,
        "nodes": reason.node_count,
        "asked": reason.asked,
        "free": reason.free,
        "capacity": reason.capacity,
        "lacking": reason.lacking,
        "unit": reason.unit,
        "text": reason.text,
    }


def _change(change: Change) -> JsonObject:
    return {
        "kind": change.kind.value,
        "text": change.sentence,
        "node": change.node_name,
        "less": [
            {
                "container": low.container_name,
                "unit": low.amount.value,
                "asked": low.asked,
                "fitting": low.fitting,
                "less": low.less,
            }
            for low in change.lowered
        ],
        "annotations": list(change.annotations),
        "uncordon": list(change.device_uuids),
    }


def placed_answer(allocation: PodAllocation, node: NodeSnapshot | None) -> JsonObject:
    """What the pod was given, and how all cards of its node are taken now."""
    chosen = {share.device_uuid for c in allocation.containers for share in c.shares}
    usages = node.usages if node is not None else ()
    return {
        "node": allocation.node_name,
        "containers": [
            {
                "name": container.container_name,
                "kind": container.kind.value,
                "cards": [
                    {
                        "uuid": share.device_uuid,
                        "memory_mib": share.memory_mib,
                        "core_percent": share.core_percent,
                    }
                    for share in container.shares
                ],
            }
            for container in allocation.containers
        ],
        "cards": [_card(u, is_chosen=u.device.device_uuid in chosen) for u in usages],
    }


def _card(usage: DeviceUsage, *, is_chosen: bool) -> JsonObject:
    device = usage.device
    return {
        "uuid": device.device_uuid,
        "index": device.device_index,
        "model": device.model,
        "is_chosen": is_chosen,
        "memory_used_mib": usage.memory_used_mib,
        "memory_mib": device.memory_mib,
        "core_used_percent": usage.core_used_percent,
        "slots_used": usage.slots_used,
        "slots": device.slot_count,
    }


def decision_answer(verdict: Verdict | None) -> JsonObject | None:
    """The last decision: nodes that would have done with their score terms, and refusals."""
    if verdict is None:
        return None
    return {
        "decided_at_s": verdict.decided_at_s,
        "node": verdict.node_name,
        "sentence": verdict.sentence,
        "policies": [name.value for name in verdict.node_policies],
        "fitting_nodes": verdict.fitting_count,
        "best": [
            {
                "node": found.node_name,
                "load_ppm": found.load_ppm,
                "terms": {
                    name.value: cost
                    for name, cost in zip(verdict.node_policies, found.costs, strict=False)
                },
            }
            for found in verdict.best
        ],
        "refusals": dict(verdict.reasons),
    }


def fit_answer(found: Capacity, *, before: int, what_if: JsonObject | None) -> JsonObject:
    """How many more pods fit and where, and how many did before what was supposed."""
    return {
        "pods": found.pod_count,
        "pods_now": before,
        "nodes": [{"node": each.node_name, "pods": each.pod_count} for each in found.nodes],
        "what_if": what_if,
    }


def what_if_answer(
    without_nodes: Sequence[str],
    without_cards: Sequence[str],
    evicted: Sequence[PodRequest],
    after: Resettled,
) -> JsonObject:
    """What was supposed, and what becomes of the pods that hold what is lost."""
    return {
        "without_nodes": list(without_nodes),
        "without_cards": list(without_cards),
        "evicted": len(evicted),
        "resettled": len(evicted) - len(after.homeless),
        "homeless": sorted(request.pod_key for request in after.homeless),
    }


def problems_answer(problems: Mapping[str, str]) -> JsonObject:
    """Problem → the nodes that take nothing because of it."""
    nodes: dict[str, list[str]] = {}
    for node_name, problem in sorted(problems.items()):
        nodes.setdefault(problem, []).append(node_name)
    return dict(nodes)
