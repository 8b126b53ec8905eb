"""The extender's verbs over HTTP: filter, prioritize and bind, under `/scheduler`.

How a pod comes to its node. Filter looks at all nodes, answers with those that fit (all of them, or
by a setting the best alone, so that nobody has to score the others), and keeps room
on the best of them before it answers: kube-scheduler asks about the next pod while this one is
still on its way to bind. Prioritize ranks the best of them so that the very best one wins. Should
another one be bound all the same (other extenders, plugins with large weights), bind decides anew
there.

Only the leader acts. Any other replica answers 503 with the name of the leader and closes the
connection, which kube-scheduler would otherwise keep using.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from hamid.codec.extender import (
    FilterResult,
    decode_binding_args,
    decode_filter_args,
    encode_binding_result,
    encode_filter_result,
    encode_priorities,
)
from hamid.errors import HamidError
from hamid.model.node import NodeSnapshot
from hamid.sched.bind import require_term
from hamid.sched.known_node import PLUGIN_AWAY
from hamid.sched.placement.explain import cluster_sentence, node_sentences
from hamid.sched.placement.place import Placement, Unplaceable
from hamid.sched.placement.refusal import grouped
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.score import SCORED_COUNT, rank_scores
from hamid.sched.placement.typical import shapes_held
from hamid.sched.placement.within import quota_refusal, within
from hamid.sched.refused import Refused
from hamid.sched.verdicts import RUNNERS_UP_KEPT, Decision, Verdicts, counted
from hamid.web.errors import Refusal
from hamid.web.responses import json_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from hamid.codec.extender import FilterArgs
    from hamid.model.quota import Bound
    from hamid.model.request import PodRequest
    from hamid.sched.bind import Binder
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.lookup import PodLookup
    from hamid.sched.placement.place import NodePlacement
    from hamid.sched.records import PodRecord
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)

PREFIX: Final = "/scheduler"
"""What `urlPrefix` of kube-scheduler's extender configuration ends with."""

UNREADABLE: Final = "what the node registers cannot be read (see hamid's log)"
IN_DOUBT: Final = "the pod may be bound to another node already"

_RANKINGS_KEPT: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderMetrics:
    """How long calls take, and how they end."""

    seconds: Histogram
    decisions: Counter

    @classmethod
    def declared_in(cls, registry: CollectorRegistry) -> ExtenderMetrics:
        """The metrics, in this registry."""
        return cls(
            seconds=Histogram(
                "hamid_sched_call_seconds",
                "Time that the extender's verbs take.",
                ("verb",),
                registry=registry,
                buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            ),
            decisions=Counter(
                "hamid_sched_decisions", "Filter calls by outcome.", ("outcome",), registry=registry
            ),
        )


class Extender:
    """Answers kube-scheduler.

    Args:
        clock: monotonic, for durations.
        wall_clock: seconds since the epoch, for verdicts.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        lookup: PodLookup,
        binder: Binder,
        leadership: Leadership,
        settings: SchedSettings,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        metrics: ExtenderMetrics,
    ) -> None:
        self._cache = cache
        self._lookup = lookup
        self._binder = binder
        self._leadership = leadership
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._placer = Placer(policies=settings.policies, arrivals=binder.arrivals)
        self._has_looked_around = False
        self._offered_count = settings.offered_count or None
        self._rankings: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self.explanations = Verdicts(capacity=settings.verdict_count)
        self.refused = Refused()
        self.nominations = binder.nominations

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """The routes of the three verbs."""
        return [
            web.post(f"{PREFIX}/filter", self._serve_filter),
            web.post(f"{PREFIX}/prioritize", self._serve_prioritize),
            web.post(f"{PREFIX}/bind", self._serve_bind),
        ]

    async def _serve_filter(self, request: web.Request) -> web.Response:
        with self._timed("filter"):
            await self._admit()
            result = await self.filter(decode_filter_args(await request.read()))
            return json_body(encode_filter_result(result))

    async def _serve_prioritize(self, request: web.Request) -> web.Response:
        with self._timed("prioritize"):
            await self._admit()
            scores = await self.prioritize(decode_filter_args(await request.read()))
            return json_body(encode_priorities(scores))

    async def _serve_bind(self, request: web.Request) -> web.Response:
        with self._timed("bind"):
            await self._admit()
            args = decode_binding_args(await request.read())
            error = await _error_of(self._binder.bind(args))
            return json_body(encode_binding_result(error))

    async def _admit(self) -> None:
        """Let the call in if this replica leads and knows the cluster."""
        if self._leadership.may_act() and not self._cache.is_synced:
            await self._cache.wait_synced()
        require_term(self._leadership, self._cache)

    async def filter(self, args: FilterArgs) -> FilterResult:
        """The nodes that fit, with room kept on the best; and why the others do not."""
        names = args.node_names
        if names is None:
            return self._failed(
                "whole nodes were sent; set nodeCacheCapable: true for this extender"
            )
        try:
            record = await self._lookup.find(args)
        except HamidError as error:
            return self._failed(str(error))
        require_term(self._leadership, self._cache)
        is_gone = False
        if record.request is not None and not record.node_name:
            is_shown = self._cache.pod(record.pod_uid) is not None
            await self._warm_up(record.request, names)
            require_term(self._leadership, self._cache)
            now = self._cache.pod(record.pod_uid)
            record, is_gone = now or record, is_shown and now is None
        if record.node_name or is_gone:
            state = f"bound to {record.node_name} already" if record.node_name else "gone"
            return self._failed(f"pod {record.pod_key} is {state}")
        if record.problem:
            self._metrics.decisions.labels("invalid").inc()
            return FilterResult(failed_unresolvable=dict.fromkeys(names, record.problem))
        if record.request is None:
            self._metrics.decisions.labels("not-ours").inc()
            return FilterResult(node_names=names)
        return self._decide(record, record.request, names)

    async def _warm_up(self, request: PodRequest, names: tuple[str, ...]) -> None:
        """Do what takes long with pauses, in which the lease is renewed and watches go on."""
        self._learn(request)
        for _ in self._placer.warming(request, self._cache.known(names).values()):
            await asyncio.sleep(0)

    def _failed(self, error: str) -> FilterResult:
        self._metrics.decisions.labels("failed").inc()
        return FilterResult(error=error)

    def _decide(
        self, record: PodRecord, request: PodRequest, names: tuple[str, ...]
    ) -> FilterResult:
        """Without any await: whoever comes next sees what was reserved here."""
        kept = self._cache.reservation(request.pod_uid)
        if kept is not None and kept.is_in_doubt:
            return self._offer_again(kept.allocation.node_name, names)
        serial = self._cache.freed.serial
        outcome, nodes = self._reserve(record, request, names)
        sentences = self._sentences(request, outcome)
        self._explain(request, outcome, sentences, nodes)
        if isinstance(outcome, Unplaceable):
            self._metrics.decisions.labels("unplaceable").inc()
            self.refused.put(
                request.pod_uid,
                serial=serial,
                node_names=names,
                may_be_helped=any(not found.is_hopeless for found, _ in grouped(outcome.refusals)),
            )
            offered: tuple[str, ...] = ()
        else:
            self._metrics.decisions.labels("placed").inc()
            self.refused.drop(request.pod_uid)
            self.nominations.drop(request.pod_uid)
            offered = self._offered(outcome, sentences, names)
        # kube-scheduler is not to look for pods to evict there: it knows nothing of cards, finds
        # nobody in the way, and puts that into the pod's status, each time in another order of the
        # nodes. That is a change of the pod, and so it tries it again, without end.
        return FilterResult(node_names=offered, failed_unresolvable=sentences)

    def _offered(
        self, outcome: Placement, refused: Mapping[str, str], names: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Those of the nodes that kube-scheduler gets to see, in its order."""
        if self._offered_count is not None:
            best = frozenset(outcome.node_names[: self._offered_count])
            return tuple([name for name in names if name in best])
        if not refused:
            return names
        return tuple([name for name in names if name not in refused])

    def _offer_again(self, node_name: str, names: tuple[str, ...]) -> FilterResult:
        """Only the node that was sent: if the pod is bound already, it is bound there."""
        if node_name not in names:
            return self._failed(f"{IN_DOUBT}: {node_name}")
        others = {name: IN_DOUBT for name in names if name != node_name}
        return FilterResult(node_names=(node_name,), failed=others)

    def _reserve(
        self, record: PodRecord, request: PodRequest, names: tuple[str, ...]
    ) -> tuple[Placement | Unplaceable, Mapping[str, NodeSnapshot]]:
        """Place the pod on one of the nodes and keep the room, instead of what was kept.

        Also returns the nodes as they were.
        """
        self._cache.forget(request.pod_uid)
        nodes = self.nominations.laid_over(
            self._snapshots(names), pod_uid=request.pod_uid, priority=record.priority
        )
        outcome = self._place(request, self._cache.bounds(record.payer), nodes)
        if isinstance(outcome, Placement):
            self._cache.assume(outcome.best.allocation(request.pod_uid), record.payer)
            self._keep_ranking(request.pod_uid, outcome.node_names[:SCORED_COUNT])
        return outcome, nodes

    def _place(
        self, request: PodRequest, bounds: Sequence[Bound], nodes: Mapping[str, NodeSnapshot]
    ) -> Placement | Unplaceable:
        if (refusal := quota_refusal(request, bounds)) is not None:
            return Unplaceable(refusals=dict.fromkeys(nodes, refusal))
        wanted = None  # for bounds may leave out the best
        if not bounds:
            wanted = max(self._offered_count or SCORED_COUNT, RUNNERS_UP_KEPT + 1)
        return within(
            request,
            self._placer.place(request, nodes, wanted=wanted),
            bounds=bounds,
            nodes=nodes,
            policies=self._settings.policies,
            measure=self._placer.measure,
        )

    def _learn(self, request: PodRequest) -> None:
        """Count the pod among those that usually come; at first, all that are there already."""
        arrivals = self._placer.arrivals
        if not self._has_looked_around:
            self._has_looked_around = True
            # The oldest first, as they came: the same pods teach every leader the same.
            for record in sorted(
                self._cache.pod_records(), key=lambda each: (each.created_at, each.pod_uid)
            ):
                if record.allocation is not None:
                    arrivals.count(record.pod_uid, shapes_held(record.allocation, record.host))
        arrivals.observe(request)

    def _snapshots(self, names: tuple[str, ...]) -> Mapping[str, NodeSnapshot]:
        known = self._cache.known(names)
        if len(known) == len(names):
            return known
        return {name: known.get(name) or NodeSnapshot(node_name=name, usages=()) for name in names}

    def _keep_ranking(self, pod_uid: str, ranking: tuple[str, ...]) -> None:
        self._rankings[pod_uid] = ranking
        self._rankings.move_to_end(pod_uid)
        while len(self._rankings) > _RANKINGS_KEPT:
            self._rankings.popitem(last=False)

    def _sentences(
        self, request: PodRequest, outcome: Placement | Unplaceable
    ) -> Mapping[str, str]:
        sentences = dict(node_sentences(request, outcome.refusals))
        for name, problem in self._cache.node_problems().items():
            if name in sentences:
                sentences[name] = problem if problem == PLUGIN_AWAY else UNREADABLE
        return sentences

    def _explain(
        self,
        request: PodRequest,
        outcome: Placement | Unplaceable,
        sentences: Mapping[str, str],
        nodes: Mapping[str, NodeSnapshot],
    ) -> None:
        sentence, fitting_count = "", 0
        best: Sequence[NodePlacement] = ()
        considered: tuple[NodeSnapshot, ...] = ()
        if isinstance(outcome, Placement):
            fitting_count = outcome.fitting_count
            best = outcome.ranked[: RUNNERS_UP_KEPT + 1]
            considered = tuple(nodes[name] for name in outcome.node_names[: len(best)])
        else:
            sentence = cluster_sentence(request, outcome.refusals)
        decision = Decision(
            request=request,
            decided_at_s=self._wall_clock(),
            sentence=sentence,
            node_policies=self._settings.policies.for_request(request).node,
            fitting_count=fitting_count,
            considered=considered,
            ranked=best,
            reasons=counted(sentences),
            typical=self._placer.arrivals.typical,
        )
        self.explanations.put(decision)
        node_name = considered[0].node_name if considered else ""
        log.debug("pod filtered", pod=request.pod_key, node=node_name, reason=sentence)

    async def prioritize(self, args: FilterArgs) -> Mapping[str, int]:
        """The best nodes' scores: the one on which room is kept first, no two alike."""
        names = args.node_names or ()
        record = await self._lookup.find(args)
        require_term(self._leadership, self._cache)
        if record.request is None or record.node_name:
            return {}
        kept = self._cache.reservation(args.pod_uid)
        if kept is None or (kept.allocation.node_name not in names and not kept.is_in_doubt):
            self._reserve(record, record.request, names)
        offered = frozenset(names)
        ranked = [name for name in self._rankings.get(args.pod_uid, ()) if name in offered]
        return rank_scores(ranked, step=self._settings.rank_step)

    @contextmanager
    def _timed(self, verb: str) -> Iterator[None]:
        began_at = self._clock()
        try:
            yield
        finally:
            self._metrics.seconds.labels(verb).observe(self._clock() - began_at)


async def _error_of(act: Awaitable[None]) -> str:
    """What went wrong, as text for kube-scheduler; empty when nothing did."""
    try:
        await act
    except Refusal:
        raise
    except HamidError as error:
        return str(error)
    return ""
