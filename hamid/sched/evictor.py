"""Evicts those who have to go for a pod: all of them or, as far as one can know, nobody.

The Eviction API has the last word. Of several victims each is evicted in a dry run before: where
the API server says no to one, by a budget or a webhook, nobody goes. That one is spared for a while.
A dry run does not see the others; so what a budget allows is read anew, and counted, where it
counts several of them.

What cannot be helped: what a budget or a webhook allows may change between the dry runs and the last
eviction; then those who went before have gone in vain.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.codec.disruption_budget import decode_budget
from hamid.errors import KubeError
from hamid.kube.errors import Conflict, NotFound, TooManyRequests, Unavailable
from hamid.kube.events import Subject
from hamid.kube.port import POD_DISRUPTION_BUDGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Counter

    from hamid.codec.disruption_budget import Budget
    from hamid.kube.events import EventWriter
    from hamid.kube.port import KubePort
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.nominations import Nominations
    from hamid.sched.placement.preemption import Holder
    from hamid.sched.records import PodRecord

log = structlog.get_logger(__name__)

_SPARED_S: Final = 60.0
"""For so long nobody is chosen again whose eviction was refused, by a budget or a webhook."""
_GOES: Final = frozenset({"evicted", "gone"})


async def budgets_now(kube: KubePort) -> tuple[Budget, ...]:
    """All disruption budgets, not from a cache; none where the API server does not know of any.

    Raises:
        KubeError: they could not be read.
    """
    try:
        found = await kube.list(POD_DISRUPTION_BUDGETS)
    except NotFound:
        return ()
    return tuple(decode_budget(each) for each in found.items)


@dataclass(slots=True, kw_only=True)
class Evictor:
    """Evicts; see the module.

    Attributes:
        writer: of the events that tell the authors of victims why.
        clock: monotonic seconds.
        counter: of those who were to be evicted, by outcome.
    """

    kube: KubePort
    writer: EventWriter
    cache: ClusterCache
    nominations: Nominations
    leadership: Leadership
    clock: Callable[[], float]
    counter: Counter
    _spared: dict[str, float] = field(default_factory=dict, init=False)

    def spared(self) -> frozenset[str]:
        """Those who are not to be chosen for a while, by UID."""
        now = self.clock()
        self._spared = {uid: end_s for uid, end_s in self._spared.items() if end_s > now}
        return frozenset(self._spared)

    def forget(self) -> None:
        """Spare nobody any more."""
        self._spared.clear()

    def _is_waiting(self, record: PodRecord) -> bool:
        found = self.cache.pod(record.pod_uid)
        return found is not None and not found.node_name

    async def evict(self, record: PodRecord, found: Iterable[Holder]) -> bool:
        """Returns whether all of them go; if not, no cards are kept for the pod.

        Args:
            record: of the pod for which cards are kept.
            found: whom to evict.

        Raises:
            KubeError: no room can be made now.
        """
        # Those first that a budget counts: they are the likeliest to be refused.
        victims = sorted(found, key=lambda each: not each.budgets)
        if len(victims) > 1:
            if not await self._keep_budgets(record, victims):
                return False
            for holder in victims:
                if not await self._evict_one(record, holder, is_dry_run=True):
                    return False
        for holder in victims:
            if self.nominations.get(record.pod_uid) is None or not self._is_waiting(record):
                return True  # it was placed meanwhile, or is gone
            if not await self._evict_one(record, holder, is_dry_run=False):
                return False
        return True

    async def _keep_budgets(self, record: PodRecord, victims: Iterable[Holder]) -> bool:
        """Whether budgets that count several of them allow that; if not, no cards are kept."""
        counts = Tally(key for holder in victims for key in holder.budgets)
        if max(counts.values(), default=0) <= 1:
            return True
        allowed = {budget.key: budget.allowed for budget in await budgets_now(self.kube)}
        if all(count <= allowed.get(key, count) for key, count in counts.items()):
            return True
        self.nominations.drop(record.pod_uid)
        return False

    async def _evict_one(self, record: PodRecord, holder: Holder, *, is_dry_run: bool) -> bool:
        """Returns whether the victim goes or is gone; if not, no cards are kept for the pod."""
        victim = self.cache.pod(holder.pod_uid)
        if victim is None:
            return True
        if not self.leadership.may_act():
            return False
        outcome = "failed"
        try:
            outcome = await self._outcome(victim, is_dry_run=is_dry_run)
        except TooManyRequests as error:
            outcome = "forbidden"
            log.info("eviction refused", pod=victim.pod_key, error=error.message)
            self._give_up(record, victim, error)
            return False
        except KubeError as error:
            self._give_up(record, victim, error)
            raise
        finally:
            is_to_come = is_dry_run and outcome in _GOES
            if not is_to_come:
                self.counter.labels(outcome).inc()
        if not is_dry_run:
            await self._tell(victim, record, outcome)
        return True

    async def _outcome(self, victim: PodRecord, *, is_dry_run: bool) -> str:
        try:
            await self.kube.evict(
                namespace=victim.namespace,
                name=victim.pod_name,
                uid=victim.pod_uid,
                is_dry_run=is_dry_run,
            )
        except (NotFound, Conflict):
            return "gone"
        return "evicted"

    def _give_up(self, record: PodRecord, victim: PodRecord, error: KubeError) -> None:
        """What was chosen for the pod is void, for this victim stays."""
        self.nominations.drop(record.pod_uid)
        if not isinstance(error, Unavailable) or error.is_answered:
            self._spared[victim.pod_uid] = self.clock() + _SPARED_S

    async def _tell(self, victim: PodRecord, record: PodRecord, outcome: str) -> None:
        if outcome == "evicted":
            await self.writer.warn(
                Subject(
                    kind="Pod",
                    name=victim.pod_name,
                    uid=victim.pod_uid,
                    namespace=victim.namespace,
                ),
                reason="Preempted",
                message=f"evicted from {victim.node_name}: its cards are needed by pod "
                f"{record.pod_key} of priority {record.priority}; this pod has {victim.priority}",
            )
        log.info(
            "pod evicted",
            pod=victim.pod_key,
            pod_uid=victim.pod_uid,
            node=victim.node_name,
            preemptor=record.pod_key,
            outcome=outcome,
        )
