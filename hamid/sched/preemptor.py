"""Leader-only service: makes room for pods of high priority, by evicting others.

kube-scheduler evicts nobody where only cards are short: it does not know of them. So the leader does.
When a pod was refused that may be helped, kube-scheduler is first given a moment, for it may evict
others for want of CPU and then asks us (the verb `preempt`, see `preempt_verb`). Then

    1. it is worked out whom to evict (`placement.preemption`), among the nodes that
       kube-scheduler showed us: those that all its own rules let the pod on;
    2. the cards are kept for the pod (`nominations`), so that no other takes them meanwhile;
    3. the victims are evicted (`evictor`).

When they have ended, kube-scheduler tries the pod again by itself, or is made to (`waker`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Counter

from hamid.aiokit.ticker import pause
from hamid.codec.extender import NodeVictims
from hamid.errors import KubeError
from hamid.model.quota import charge, overdrafts
from hamid.sched.evictor import Evictor, budgets_now
from hamid.sched.holders import Holdings, longest_grace_s
from hamid.sched.hopeless import Hopeless
from hamid.sched.nominations import Nomination
from hamid.sched.placement.preemption import Preemptor as Asking
from hamid.sched.placement.preemption import eviction
from hamid.sched.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from hamid.codec.disruption_budget import Budget
    from hamid.kube.events import EventWriter
    from hamid.kube.port import KubePort
    from hamid.model.node import NodeSnapshot
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.nominations import Nominations
    from hamid.sched.placement.preemption import Eviction
    from hamid.sched.records import PodRecord
    from hamid.sched.refused import LastTry, Refused
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)

_IDLE_S: Final = 5.0
_HOPELESS_S: Final = 10.0
"""For so long it is not worked out again for pods like one that nobody's end helps; see `hopeless`."""
_AT_ONCE: Final = 20
_MARGIN_S: Final = 60.0
"""How long cards are kept beyond the time that the victims have to end."""
LOOKS: Final = 3
"""So often it is worked out anew because the node that was chosen has changed meanwhile."""
_ABOVE_NOBODY: Final = -(2**31)
"""A priority that no pod has less of."""
NOBODY: Final = NodeVictims(pod_uids=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionMetrics:
    """How it ended."""

    preemptions: Counter
    evictions: Counter

    @classmethod
    def declared_in(cls, registry: CollectorRegistry) -> PreemptionMetrics:
        """The metrics, in this registry."""
        return cls(
            preemptions=Counter(
                "hamid_sched_preemptions",
                "Pods for which room was to be made by evicting others, by outcome.",
                ("outcome",),
                registry=registry,
            ),
            evictions=Counter(
                "hamid_sched_evictions",
                "Pods that were to be evicted, by outcome.",
                ("outcome",),
                registry=registry,
            ),
        )


@dataclass(slots=True, kw_only=True)
class Preemptor:
    """Makes room; see the module.

    Attributes:
        writer: of the events that tell the authors of victims why.
        clock, wall_clock: monotonic seconds, and seconds since the epoch.
        rest_s: how long to rest after the last search.
    """

    kube: KubePort
    writer: EventWriter
    cache: ClusterCache
    refused: Refused
    nominations: Nominations
    leadership: Leadership
    settings: SchedSettings
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    metrics: PreemptionMetrics
    name: str = "preemptor"
    _looked_at: dict[str, LastTry] = field(default_factory=dict, init=False)
    _hopeless: Hopeless = field(default_factory=Hopeless, init=False)
    evictor: Evictor = field(init=False)
    _trouble: Trouble = field(
        default_factory=lambda: Trouble("no room can be made", "room can be made again"), init=False
    )
    rest_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.evictor = Evictor(
            kube=self.kube,
            writer=self.writer,
            cache=self.cache,
            nominations=self.nominations,
            leadership=self.leadership,
            clock=self.clock,
            counter=self.metrics.evictions,
        )

    async def run(self) -> None:
        """Make room until cancelled."""
        # Of an earlier term: who was refused then may be let onto other nodes now.
        self.refused.clear()
        self.nominations.clear()
        self._looked_at.clear()
        self.evictor.forget()
        seen = 0
        while True:
            await self.refused.wait(since=seen, timeout_s=_IDLE_S)
            await pause(self.settings.preempt_delay_s)
            seen = self.refused.helpable_count
            while await self.step():
                pass

    async def step(self) -> bool:
        """Look once at the pods that were refused since; returns whether some are left."""
        is_any_left = False
        self.nominations.keep_only(self._is_waiting)
        self.refused.keep_only({uid for uid in self.refused.tries() if self._is_waiting(uid)})
        if not self.settings.preempts or not self.cache.is_synced:
            return False
        asking = self._asking()
        if not asking or not self.leadership.may_act():
            return False
        try:
            budgets = await self.budgets()
            for record, last in asking[:_AT_ONCE]:
                if self._hopeless.has(record, last):
                    continue
                if await self._preempt(record, last, budgets):
                    self._looked_at[record.pod_uid] = last
                elif not self._hopeless.has(record, last):
                    is_any_left = True
                # Half of the time at most: kube-scheduler's calls want the same interpreter.
                await pause(self.rest_s)
        except KubeError as error:
            self._trouble.begin(error)
            return False
        self._trouble.end()
        return is_any_left or len(asking) > _AT_ONCE

    async def budgets(self) -> tuple[Budget, ...]:
        """All there are, as they are now.

        Raises:
            KubeError: they could not be read.
        """
        return await budgets_now(self.kube)

    def _is_waiting(self, pod_uid: str) -> bool:
        record = self.cache.pod(pod_uid)
        return record is not None and not record.node_name

    def _asking(self) -> Sequence[tuple[PodRecord, LastTry]]:
        """Those to look at, in kube-scheduler's order."""
        tries, now = self.refused.tries(), self.clock()
        for pod_uid in self._looked_at.keys() - tries.keys():
            del self._looked_at[pod_uid]
        self._hopeless.forget(now_s=now, but=tries)
        found = [
            (record, last)
            for pod_uid, last in tries.items()
            if last.may_be_helped
            and self._looked_at.get(pod_uid) is not last
            and self.nominations.get(pod_uid) is None
            and (record := self.cache.pod(pod_uid)) is not None
            and record.may_preempt
            and not record.leaves_at
        ]
        if not found:
            return ()
        lowest = min((r.priority for r in self.cache.pod_records() if r.allocation), default=None)
        if lowest is None:
            return ()
        # Thousands may wait that are of no higher priority than anybody: of these nothing is asked.
        found = [
            (record, last)
            for record, last in found
            if record.priority > lowest and not self._hopeless.has(record, last)
        ]
        return sorted(found, key=lambda each: (-each[0].priority, each[0].created_at))

    async def _preempt(self, record: PodRecord, last: LastTry, budgets: Sequence[Budget]) -> bool:
        """Returns whether there is nothing more to do for the pod until it is refused again."""
        found = await self.find(
            record,
            dict.fromkeys(sorted(last.node_names), NOBODY),
            budgets=budgets,
            may_violate=False,
        )
        if found is None:
            self._hopeless.add(record, last, until_s=self.clock() + _HOPELESS_S)
            self.metrics.preemptions.labels("no-help").inc()
            return False
        if self.refused.tries().get(record.pod_uid) is None or not self._is_waiting(record.pod_uid):
            return True  # it was placed meanwhile
        if self.nominations.get(record.pod_uid) is not None:
            return True
        self.nominate(record, found)
        return await self.evictor.evict(record, found.victims)

    async def find(
        self,
        record: PodRecord,
        given: Mapping[str, NodeVictims],
        *,
        budgets: Sequence[Budget],
        may_violate: bool,
    ) -> Eviction | None:
        """Whom to evict for the pod on one of these nodes, beside those given; None if no help."""
        if record.request is None:
            return None
        asking = Asking(
            request=record.request,
            # Who may have nobody evicted for cards gets no more than is evicted in any case.
            priority=record.priority if self.settings.preempts else _ABOVE_NOBODY,
            policies=self.settings.policies,
            allowed={budget.key: budget.allowed for budget in budgets},
            may_violate=may_violate,
            now_s=self.wall_clock(),
        )
        began_at_s = self.clock()
        for _ in range(LOOKS):
            nodes = self.seen_by(record, given)
            holdings = Holdings(
                records=self.cache.pod_records(),
                victims=self.nominations.victims(),
                budgets=budgets,
                spared=None if may_violate else self.evictor.spared(),
                fresh=self._fresh_for(record),
                now_s=asking.now_s,
            )
            found = await asyncio.to_thread(eviction, asking, holdings.on(nodes, given))
            # What was free there may have been given away meanwhile, or promised to another.
            if found is None or self.sees(record, nodes[found.placement.node_name]):
                break
        self.rest_s = self.clock() - began_at_s
        if found is None:
            return None
        # Quotas are no shortage of cards: who is over them is not helped by any eviction.
        asked = charge(found.placement.allocation(record.pod_uid))
        return None if overdrafts(self.cache.bounds(record.payer), asked) else found

    def _fresh_for(self, record: PodRecord) -> frozenset[str]:
        last, freed = self.refused.tries().get(record.pod_uid), self.cache.freed
        if last is None:
            return frozenset()
        return freed.since(last.serial, among=last.node_names, namespace=record.namespace)

    def seen_by(self, record: PodRecord, names: Iterable[str]) -> Mapping[str, NodeSnapshot]:
        """Those of the nodes that are known, as the pod has to see them now."""
        return self.nominations.laid_over(
            {name: node for name in names if (node := self.cache.snapshot(name)) is not None},
            pod_uid=record.pod_uid,
            priority=record.priority,
        )

    def sees(self, record: PodRecord, node: NodeSnapshot) -> bool:
        """Whether the node is still what the pod has seen."""
        return self.seen_by(record, (node.node_name,)).get(node.node_name) is node

    async def elsewhere(self, record: PodRecord, names: Collection[str]) -> Eviction | None:
        """Whom we shall evict for the pod on nodes other than these; None if nobody.

        Raises:
            KubeError: disruption budgets could not be read.
        """
        last = self.refused.tries().get(record.pod_uid)
        if last is None or not last.may_be_helped or not self.settings.preempts:
            return None
        if self._looked_at.get(record.pod_uid) is last:
            return None  # it was looked at already, and stays as it is
        others = sorted(last.node_names.difference(names))
        return await self.find(
            record,
            dict.fromkeys(others, NOBODY),
            budgets=await self.budgets(),
            may_violate=False,
        )

    def nominate(self, record: PodRecord, found: Eviction, *, given: NodeVictims = NOBODY) -> None:
        """Keep the cards for the pod until those evicted for it are gone."""
        victims = frozenset(given.pod_uids) | {holder.pod_uid for holder in found.victims}
        grace_s = longest_grace_s(self.cache, victims, found.placement.node_name, self.wall_clock())
        overtaken = self.nominations.put(
            Nomination(
                allocation=found.placement.allocation(record.pod_uid),
                priority=record.priority,
                victims=victims,
                expires_at=self.clock() + grace_s + _MARGIN_S,
            )
        )
        for pod_uid in overtaken:
            self._looked_at.pop(pod_uid, None)
        self.metrics.preemptions.labels("nominated").inc()
        log.info(
            "room promised",
            pod=record.pod_key,
            pod_uid=record.pod_uid,
            priority=record.priority,
            node=found.placement.node_name,
            victim_uids=sorted(victims),
        )
