"""The JSON of `explain` and `fit`; its fields are documented in `docs/explain.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hamid.sched.placement.card_terms import card_terms
from hamid.sched.placement.explain import card_reasons, card_sentence
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.over_quota import overdraft_clause
from hamid.sched.placement.place import Placement, Unplaceable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Overdraft
    from hamid.model.request import PodRequest, PolicyName
    from hamid.sched.outlook import Outlook, RoomMade
    from hamid.sched.placement.capacity import Capacity, Resettled
    from hamid.sched.placement.change import Change
    from hamid.sched.placement.explain import CardReason
    from hamid.sched.placement.policy import Policies
    from hamid.sched.verdicts import Scene, Verdict

JsonObject = dict[str, Any]

NODES_SHOWN = 5
HOST_TERM = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Nodes supposed to be drained or to be there, too, and cards supposed to be lost.

    Attributes:
        with_nodes: described as `added_nodes` says.
    """

    without_nodes: tuple[str, ...] = ()
    without_cards: tuple[str, ...] = ()
    with_nodes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.without_nodes or self.without_cards or self.with_nodes)


def pending_answer(found: Outlook) -> JsonObject:
    """Why the pod waits, by what the nodes are now."""
    outcome = found.outcome
    if isinstance(outcome, Placement) and found.over_quota is None:
        names = list(outcome.node_names[:NODES_SHOWN])
        count = len(outcome.node_names)
        return {
            "fits_now": names,
            "sentence": f"the cards of {count} node{'' if count == 1 else 's'} would do now, "
            f"best {names[0]}; kube-scheduler has yet to try again, or refuses for reasons of its own",
            "set_aside": found.set_aside_count,
            "making_room": _room_made(found.room_made),
            "reasons": [],
            "changes": [],
            "remark": "",
        }
    refusals = outcome.refusals if isinstance(outcome, Unplaceable) else {}
    return {
        "fits_now": [],
        "sentence": found.sentence,
        "set_aside": found.set_aside_count,
        "making_room": _room_made(found.room_made),
        "reasons": [
            *(() if found.over_quota is None else map(_overdraft, found.over_quota.overdrafts)),
            *map(_reason, card_reasons(found.request, refusals)),
        ],
        "changes": [_change(change) for change in found.changes],
        "remark": found.remark,
    }


def _room_made(room: RoomMade | None) -> JsonObject | None:
    return None if room is None else {"node": room.node_name, "leaving": list(room.leaving)}


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


def _overdraft(over: Overdraft) -> JsonObject:
    return {
        "kind": "quota",
        "cards": 0,
        "nodes": 0,
        "asked": over.asked,
        "free": max(over.bound.left, 0),
        "capacity": over.bound.limit.hard,
        "lacking": over.excess,
        "unit": over.bound.limit.resource.value,
        "text": overdraft_clause(over),
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
        "pod": change.pod_key or None,
    }


def placed_answer(allocation: PodAllocation, node: NodeSnapshot | None) -> JsonObject:
    """What the pod was given, and how all cards of its node are taken now."""
    chosen = allocation.device_uuids
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


def decision_answer(
    verdict: Verdict | None, scene: Scene | None, policies: Policies
) -> JsonObject | None:
    """The last decision: nodes that would have done with their score terms, and refusals.

    Args:
        verdict: the decision; None where it is not known.
        scene: what it was taken on.
        policies: of the cluster.
    """
    if verdict is None:
        return None
    cards = {} if scene is None else _cards_by_node(scene, policies)
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
                "terms": _node_terms(verdict.node_policies, found.costs),
                "cards": cards.get(found.node_name, []),
            }
            for found in verdict.best
        ],
        "refusals": dict(verdict.reasons),
    }


def anew_answer(scene: Scene, policies: Policies, *, rank: int, fitting_count: int) -> JsonObject:
    """What would be decided about a pod that runs, were it to be placed now.

    Args:
        scene: the best nodes without the pod, the pod's own among them.
        policies: of the cluster.
        rank: of the pod's own node, from 1; 0 where it would not do any more.
        fitting_count: nodes that would do.
    """
    wanted = policies.for_request(scene.request)
    cards = _cards_by_node(scene, policies)
    return {
        "rank": rank,
        "policies": [name.value for name in wanted.node],
        "fitting_nodes": fitting_count,
        "best": [
            {
                "node": node.node_name,
                "load_ppm": placed.load_ppm,
                "terms": _node_terms(wanted.node, placed.cost),
                "cards": cards[node.node_name],
            }
            for node, placed in scene.considered
        ],
    }


def _cards_by_node(scene: Scene, policies: Policies) -> dict[str, list[JsonObject]]:
    measure, request = Fragmentation(scene.typical), scene.request
    return {
        node.node_name: [
            {
                "container": found.container_name,
                "uuid": found.usage.device.device_uuid,
                "index": found.usage.device.device_index,
                "is_chosen": found.is_chosen,
                "memory_used_mib": found.usage.memory_used_mib,
                "core_used_percent": found.usage.core_used_percent,
                "slots_used": found.usage.slots_used,
                "terms": _terms(found.costs),
                "lacking": [card_sentence(request, shortfall) for shortfall in found.lacking],
            }
            for found in card_terms(request, node, placed, policies=policies, measure=measure)
        ]
        for node, placed in scene.considered
    }


def _node_terms(policies: Sequence[PolicyName], costs: Sequence[int]) -> JsonObject:
    """What each policy says of a node, and its host, where that decides last."""
    return dict(zip([*(name.value for name in policies), HOST_TERM], costs, strict=False))


def _terms(costs: Mapping[PolicyName, int]) -> JsonObject:
    return {name.value: cost for name, cost in costs.items()}


def fit_answer(found: Capacity, *, before: int, what_if: JsonObject | None) -> JsonObject:
    """How many more pods fit and where, and how many did before what was supposed."""
    return {
        "pods": found.pod_count,
        "pods_now": before,
        "nodes": [{"node": each.node_name, "pods": each.pod_count} for each in found.nodes],
        "what_if": what_if,
    }


def what_if_answer(
    supposed: WhatIf,
    added: Sequence[NodeSnapshot],
    evicted: Sequence[PodRequest],
    after: Resettled,
) -> JsonObject:
    """What was supposed, and what becomes of the pods that hold what is lost."""
    return {
        "without_nodes": list(supposed.without_nodes),
        "without_cards": list(supposed.without_cards),
        "with_nodes": [node.node_name for node in added],
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
