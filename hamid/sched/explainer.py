"""Answers people who ask why a pod is where it is, or waits, and how many more would fit.

All of it is worked out on snapshots, in a thread beside the loop: the leader goes on deciding, and
nothing is reserved, learned or written.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.codec.pod_request import decode_pod_request
from hamid.codec.quota import decode_payer
from hamid.errors import RequestError
from hamid.model.node import NO_HOST
from hamid.model.quota import copies, least_charge
from hamid.sched.added_nodes import added_node
from hamid.sched.answers import (
    anew_answer,
    decision_answer,
    fit_answer,
    pending_answer,
    placed_answer,
    problems_answer,
    what_if_answer,
)
from hamid.sched.bind import require_term
from hamid.sched.outlook import RoomMade, outlook, tenants_of
from hamid.sched.placement.capacity import Counting, freed, remaining, request_held, resettled
from hamid.sched.placement.place import Placement, place
from hamid.sched.placement.typical import Arrivals
from hamid.sched.refused import Refused
from hamid.sched.verdicts import RUNNERS_UP_KEPT, Scene
from hamid.web.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.kube.port import JsonObject
    from hamid.model.allocation import PodAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.answers import WhatIf
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.nominations import Nominations
    from hamid.sched.outlook import Outlook
    from hamid.sched.placement.policy import Policies
    from hamid.sched.records import PodRecord
    from hamid.sched.settings import SchedSettings
    from hamid.sched.verdicts import Verdicts

_NOT_OURS: Final = "the pod asks for no card: it is not ours to place"


class _Holder(NamedTuple):
    """A pod that holds cards, and what it would ask for."""

    allocation: PodAllocation
    request: PodRequest
    is_initialized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Explains, on the replica that leads.

    Args:
        refused: the last tries of pods that wait; none are known on a copy of a cluster.
        nominations: room that is being made; none there, either.
    """

    cache: ClusterCache
    verdicts: Verdicts
    leadership: Leadership
    settings: SchedSettings
    refused: Refused = field(default_factory=Refused)
    nominations: Nominations | None = None

    async def explain(self, namespace: str, pod_name: str) -> JsonObject:
        """Why the pod is where it is, or why it waits.

        Raises:
            Refusal: this replica does not lead, or there is no such pod.
        """
        require_term(self.leadership, self.cache)
        record = self._pod(namespace, pod_name)
        policies = self.settings.policies
        scene = self.verdicts.scene(record.pod_uid)
        decision = await asyncio.to_thread(
            decision_answer, self.verdicts.verdict(record.pod_uid), scene, policies
        )
        answer: JsonObject = {
            "pod": record.pod_key,
            "uid": record.pod_uid,
            "decision": decision,
            "node_problems": problems_answer(self.cache.node_problems()),
        }
        if record.problem:
            return answer | {"state": "invalid", "sentence": record.problem}
        allocation = self._held(record)
        if allocation is not None:
            holder = _holder(record, allocation)
            state = "placed" if record.node_name else "reserved"
            node = self.cache.snapshot(holder.allocation.node_name)
            answer |= {"state": state} | placed_answer(holder.allocation, node)
            if decision is None:
                nodes = self.cache.snapshots()
                answer["anew"] = await asyncio.to_thread(_anew, holder, nodes, policies)
            return answer
        if record.request is None:
            return answer | {"state": "not-ours", "sentence": _NOT_OURS}
        found = await self.outlook(record, record.request)
        return answer | {"state": "pending"} | pending_answer(found)

    async def outlook(self, record: PodRecord, request: PodRequest) -> Outlook:
        """Why the pod of this record and request waits, and what would make it fit."""
        last_try = self.refused.tries().get(record.pod_uid)
        return await asyncio.to_thread(
            outlook,
            request,
            self._nodes_seen_by(record.pod_uid, record.priority),
            self.settings.policies,
            tenants=tenants_of(self.cache.pod_records()),
            offered=frozenset() if last_try is None else last_try.node_names,
            bounds=self.cache.bounds(record.payer),
            room_made=self._room_made(record.pod_uid),
            problems=self.cache.node_problems(),
        )

    def _nodes_seen_by(self, pod_uid: str, priority: int) -> tuple[NodeSnapshot, ...]:
        """All nodes; where room is kept for others before this pod, it is taken."""
        nodes = self.cache.snapshots()
        if self.nominations is None:
            return tuple(nodes)
        by_name = {node.node_name: node for node in nodes}
        seen = self.nominations.laid_over(by_name, pod_uid=pod_uid, priority=priority)
        return tuple(seen.values())

    def _room_made(self, pod_uid: str) -> RoomMade | None:
        found = None if self.nominations is None else self.nominations.get(pod_uid)
        if found is None:
            return None
        there = (self.cache.pod(victim_uid) for victim_uid in found.victims)
        leaving = sorted(victim.pod_key for victim in there if victim is not None)
        return RoomMade(node_name=found.node_name, leaving=tuple(leaving))

    def _pod(self, namespace: str, pod_name: str) -> PodRecord:
        for record in self.cache.pod_records():
            if record.pod_name == pod_name and record.namespace == namespace:
                return record
        raise Refusal(
            f"no pod {namespace}/{pod_name} waits for a node or holds cards",
            hint="compare with kubectl get pods; one that has ended is not kept",
            status=HTTPStatus.NOT_FOUND,
        )

    def _held(self, record: PodRecord) -> PodAllocation | None:
        """What the pod holds, by record or by reservation."""
        if record.allocation is not None:
            return record.allocation
        kept = self.cache.reservation(record.pod_uid)
        return None if kept is None else kept.allocation

    async def fit(self, pod: JsonObject, what_if: WhatIf) -> JsonObject:
        """How many more pods like this one fit, and where.

        Args:
            pod: as one would create it.
            what_if: what to suppose.

        Raises:
            RequestError: the pod asks for what cannot be, or for no card; or what is supposed to
                be lost is not there, or what is supposed to be added cannot be understood.
            Refusal: this replica does not lead.
        """
        require_term(self.leadership, self.cache)
        request = decode_pod_request(
            pod, names=self.settings.resources, defaults=self.settings.defaults
        )
        if request is None:
            raise RequestError(
                "no card is asked for", hint=f"ask for {self.settings.resources.count}"
            )
        nodes = self._nodes_seen_by("", 0)
        self._assert_known(nodes, what_if)
        supposed = _Supposed(what_if, self._added(nodes, what_if), self._leaving(what_if))
        answer = await asyncio.to_thread(_fit, request, nodes, supposed, self.settings.policies)
        return answer | {"quota_pods": self._quota_pods(pod, request)}

    def _quota_pods(self, pod: JsonObject, request: PodRequest) -> int | None:
        """How many the quotas leave room for; a percentage is counted as the least it can be."""
        return copies(self.cache.bounds(decode_payer(pod)), least_charge(request))

    def _assert_known(self, nodes: Sequence[NodeSnapshot], what_if: WhatIf) -> None:
        cards = {usage.device.device_uuid for node in nodes for usage in node.usages}
        for what, names, known in (
            ("node", what_if.without_nodes, {node.node_name for node in nodes}),
            ("card", what_if.without_cards, cards),
        ):
            for name in names:
                if name not in known:
                    raise RequestError(
                        f"there is no {what} {name!r} among the {len(known)} that are known",
                        hint="compare with kubectl get nodes, or with /debug/cache",
                    )

    def _added(self, nodes: Sequence[NodeSnapshot], what_if: WhatIf) -> tuple[NodeSnapshot, ...]:
        known = [usage.device for node in nodes for usage in node.usages]
        return tuple(
            added_node(text, number, emptied=self.cache.emptied, known=known)
            for number, text in enumerate(what_if.with_nodes, start=1)
        )

    def _leaving(self, what_if: WhatIf) -> list[_Holder]:
        """The pods that hold what is supposed to be lost."""
        if not what_if.without_nodes and not what_if.without_cards:
            return []
        found = []
        for record in self.cache.pod_records():
            allocation = self._held(record)
            if allocation is None:
                continue
            is_lost = not allocation.device_uuids.isdisjoint(what_if.without_cards)
            if is_lost or allocation.node_name in what_if.without_nodes:
                found.append(_holder(record, allocation))
        return found


def _holder(record: PodRecord, allocation: PodAllocation) -> _Holder:
    request = record.request or request_held(
        allocation, namespace=record.namespace, pod_name=record.pod_name, host=record.host
    )
    return _Holder(allocation, request, record.is_initialized)


def _vacated(node: NodeSnapshot, holder: _Holder) -> NodeSnapshot:
    """The pod's node without the pod."""
    left = freed(node, holder.allocation, is_initialized=holder.is_initialized)
    return left.with_host_asked(NO_HOST - holder.request.host)


class _Supposed(NamedTuple):
    """What is supposed: as asked, the nodes that are there, too, and the pods that must leave."""

    what_if: WhatIf
    added: Sequence[NodeSnapshot]
    leaving: Sequence[_Holder]


def _anew(holder: _Holder, nodes: Sequence[NodeSnapshot], policies: Policies) -> JsonObject | None:
    """What would be decided about the pod by what there is now beside it."""
    own = holder.allocation.node_name
    seen = (_vacated(node, holder) if node.node_name == own else node for node in nodes)
    by_name = {n.node_name: n for n in seen if n.has_host_for(holder.request.host)}
    outcome = place(holder.request, by_name.values(), policies=policies)
    if not isinstance(outcome, Placement):
        return None
    rank = next((n for n, name in enumerate(outcome.node_names, start=1) if name == own), 0)
    considered = list(outcome.ranked[: RUNNERS_UP_KEPT + 1])
    if rank > len(considered):
        considered.append(outcome.ranked[rank - 1])
    scene = Scene(
        request=holder.request,
        considered=tuple((by_name[found.node_name], found) for found in considered),
        typical=Arrivals().typical,
    )
    return anew_answer(scene, policies, rank=rank, fitting_count=len(outcome.node_names))


def _fit(
    request: PodRequest, nodes: Sequence[NodeSnapshot], supposed: _Supposed, policies: Policies
) -> JsonObject:
    what_if, leaving = supposed.what_if, supposed.leaving
    counting = Counting(request, policies)
    now = counting.over(nodes)
    if not what_if:
        return fit_answer(now, before=now.pod_count, what_if=None)
    by_name = {node.node_name: node for node in nodes}
    for holder in leaving:
        node = by_name.get(holder.allocation.node_name)
        if node is None:  # the pod outlives its node in the books
            continue
        by_name[node.node_name] = _vacated(node, holder)
    left = remaining(
        by_name.values(),
        without_nodes=what_if.without_nodes,
        without_cards=what_if.without_cards,
    )
    evicted = [holder.request for holder in leaving]
    after = resettled(evicted, (*left, *supposed.added), policies=policies, arrivals=Arrivals())
    return fit_answer(
        counting.over(after.nodes),
        before=now.pod_count,
        what_if=what_if_answer(what_if, supposed.added, evicted, after),
    )
