"""The extender's verb `preempt`: kube-scheduler wants to evict pods, and asks what we say to it.

It asks only where its own rules are short of something, such as CPU, and knows nothing of cards:
whom it would evict may leave the pod without any. So of the nodes that it names only those remain on
which the pod has its cards once the victims are gone, with those added who have to go for that; and
of these the best. Where those who go for their cards leave CPU and memory enough, they go alone. Where
cards alone are short on other nodes, and fewer or less important pods would have to go there, no node
remains: that is for `preemptor`. What it has decided stands.

kube-scheduler deletes whom it evicts, which no budget forbids. A webhook may, and is asked by nobody
before: the right to delete pods, which a dry run takes, is not hamid's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import structlog
from aiohttp import web

from hamid.codec.extender import NodeVictims, decode_preempt_args, encode_preempt_result
from hamid.errors import ExtenderError
from hamid.sched.bind import require_term
from hamid.sched.preemptor import LOOKS, NOBODY
from hamid.web.responses import json_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.codec.disruption_budget import Budget
    from hamid.codec.extender import PreemptArgs
    from hamid.model.node import NodeSnapshot
    from hamid.sched.cache import ClusterCache
    from hamid.sched.placement.preemption import Eviction
    from hamid.sched.preemptor import Preemptor
    from hamid.sched.records import PodRecord

log = structlog.get_logger(__name__)


class _Chosen(NamedTuple):
    """Whom to evict.

    Attributes:
        given: those of them that kube-scheduler has named.
        node: theirs, as it was when they were chosen.
    """

    found: Eviction
    given: NodeVictims
    node: NodeSnapshot | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptVerb:
    """Answers kube-scheduler."""

    cache: ClusterCache
    preemptor: Preemptor

    def routes(self, prefix: str) -> Sequence[web.AbstractRouteDef]:
        """The route of the verb."""
        return [web.post(f"{prefix}/preempt", self._serve)]

    async def _serve(self, request: web.Request) -> web.Response:
        require_term(self.preemptor.leadership, self.cache)
        args = decode_preempt_args(await request.read())
        return json_body(encode_preempt_result(await self.preempt(args)))

    async def preempt(self, args: PreemptArgs) -> Mapping[str, NodeVictims]:
        """The nodes that remain, and whom to evict from each.

        Raises:
            ExtenderError: whole pods were sent.
            KubeError: disruption budgets could not be read.
            Refusal: the term ended meanwhile.
        """
        if args.victims is None:
            raise ExtenderError(
                "whole pods were sent", hint="set nodeCacheCapable: true for this extender"
            )
        record = self.cache.pod(args.pod_uid)
        if record is None or record.request is None:
            return args.victims
        if not self._is_open(args.pod_uid):
            return {}
        for _ in range(LOOKS):
            chosen = await self._chosen(record, args.victims)
            if not self._is_open(args.pod_uid) or chosen is None:
                return {}
            if chosen.node is None or self.preemptor.sees(record, chosen.node):
                break
        return {} if chosen is None else self._told(record, chosen)

    def _is_open(self, pod_uid: str) -> bool:
        """Whether the pod waits, and nobody ends for it already."""
        record, nomination = self.cache.pod(pod_uid), self.preemptor.nominations.get(pod_uid)
        if record is None or record.node_name:
            return False
        victims = () if nomination is None else nomination.victims
        return all(self.cache.pod(victim) is None for victim in victims)

    async def _chosen(
        self, record: PodRecord, victims: Mapping[str, NodeVictims]
    ) -> _Chosen | None:
        """Whom to evict on one of these nodes; None if on none of them."""
        budgets = await self.preemptor.budgets()
        require_term(self.preemptor.leadership, self.cache)
        found = await self.preemptor.find(record, victims, budgets=budgets, may_violate=True)
        if found is None:
            log.info("nobody to evict", pod=record.pod_key, node_count=len(victims))
            return None
        name = found.placement.node_name
        node, given = self.preemptor.seen_by(record, (name,)).get(name), victims[name]
        alone = await self._enough_alone(record, found, budgets=budgets)
        if alone is not None:
            found, given = alone, NOBODY
        elsewhere = await self.preemptor.elsewhere(record, victims.keys())
        require_term(self.preemptor.leadership, self.cache)
        if elsewhere is not None and elsewhere.cost <= found.cost:
            return None  # the preemptor comes to the same in a moment
        return _Chosen(found, given, node)

    async def _enough_alone(
        self, record: PodRecord, found: Eviction, *, budgets: Sequence[Budget]
    ) -> Eviction | None:
        """Whom to evict for cards if those given stay, and that is enough; None if it is not.

        Should kube-scheduler have more against those given than CPU and memory, it asks again; then
        nobody has to go for cards any more, and it gets them.
        """
        name = found.placement.node_name
        if not found.victims or record.request is None:
            return None
        alone = await self.preemptor.find(record, {name: NOBODY}, budgets=budgets, may_violate=True)
        node = self.cache.snapshot(name)
        if alone is None or node is None or node.host_free is None or alone.cost >= found.cost:
            return None
        leaving = (self.cache.pod(holder.pod_uid) for holder in alone.victims)
        free = sum((victim.host for victim in leaving if victim is not None), node.host_free)
        return alone if free.covers(record.request.host) else None

    def _told(self, record: PodRecord, chosen: _Chosen) -> Mapping[str, NodeVictims]:
        found, given = chosen.found, chosen.given
        self.preemptor.nominate(record, found, given=given)
        more = tuple(holder.pod_uid for holder in found.victims)
        victims = NodeVictims(pod_uids=(*given.pod_uids, *more), violations=found.cost.violations)
        return {found.placement.node_name: victims}
