"""The extender's verb `preempt`: kube-scheduler wants to evict pods, and asks what we say to it.

It asks only where its own rules are short of something, such as CPU, and knows nothing of cards:
whom it would evict may leave the pod without any. So of the nodes that it names only those remain on
which the pod has its cards once the victims are gone, with those added who have to go for that; and
of these the best. Where cards alone are short on other nodes, and fewer or less important pods would
have to go there, no node remains: that is for `preemptor`. What it has decided stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from hamid.codec.extender import NodeVictims, decode_preempt_args, encode_preempt_result
from hamid.errors import ExtenderError
from hamid.sched.bind import require_term
from hamid.web.responses import json_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.codec.extender import PreemptArgs
    from hamid.sched.cache import ClusterCache
    from hamid.sched.placement.preemption import Eviction
    from hamid.sched.preemptor import Preemptor
    from hamid.sched.records import PodRecord

log = structlog.get_logger(__name__)


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
        if self.preemptor.nominations.get(args.pod_uid) is not None:
            return {}
        budgets = await self.preemptor.budgets()
        require_term(self.preemptor.leadership, self.cache)
        found = await self.preemptor.find(record, args.victims, budgets=budgets, may_violate=True)
        if found is None:
            log.info("nobody to evict", pod=record.pod_key, node_count=len(args.victims))
            return {}
        elsewhere = await self.preemptor.elsewhere(record, args.victims.keys())
        if elsewhere is not None and elsewhere.cost <= found.cost:
            return {}  # the preemptor comes to the same in a moment
        require_term(self.preemptor.leadership, self.cache)
        return self._told(record, found, args.victims[found.placement.node_name])

    def _told(
        self, record: PodRecord, found: Eviction, given: NodeVictims
    ) -> Mapping[str, NodeVictims]:
        self.preemptor.nominate(record, found, given=given)
        more = tuple(holder.pod_uid for holder in found.victims)
        victims = NodeVictims(pod_uids=(*given.pod_uids, *more), violations=found.cost.violations)
        return {found.placement.node_name: victims}
