"""Leader-only service: has waiting pods tried again when there is room for them.

What kube-scheduler does by itself. A pod that an extender refused is tried again after any event
that kube-scheduler sees: a pod gone, a node changed. That is not enough. Its watch may be ahead of
ours, so that the pod is refused once more by books that show no room yet; and what frees room in
our books alone (a reservation that ends, a quota that is raised) is no event for it. Then the pod
waits for the next chance event, or five minutes.

A pod that kube-scheduler's own rules keep from all nodes, for want of processors, say, never comes to
us. It is tried again when any pod ends; but an annotation does not help it: since 1.32, a pod that no
extender refused is tried again only after what the rules that refused it ask for.

What is done here. When room may have become free, kube-scheduler is left alone for a moment. Then
those pods that fit by our books, and were not tried since, are woken by one annotation each: a
change of the pod itself has it tried again, in all versions of kube-scheduler. As many as fit, the
highest priority and the longest wait first, each once for each time that room became free.
A pod that is woken keeps its place in the count for `_PATIENCE_S`; if it was not tried by then, or
was and could not use the room, the next ones get their turn. One that has no room though nobody before
it takes any is not looked at again before more becomes free: so those behind it get their turn, too,
however many wait. Where the API server did not get the annotation, it is written again after `_PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from prometheus_client import Counter

from hamid.aiokit.ticker import pause
from hamid.codec.lease import format_micro_time
from hamid.errors import KubeError
from hamid.kube.errors import Conflict, NotFound, TooManyRequests, Unavailable
from hamid.kube.port import PODS, PatchKind
from hamid.model import names as wire
from hamid.sched.placement.waking import Waiter, fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from hamid.kube.port import KubePort
    from hamid.model.allocation import PodAllocation
    from hamid.model.request import PodRequest
    from hamid.sched.cache import ClusterCache
    from hamid.sched.leadership import Leadership
    from hamid.sched.nominations import Nominations
    from hamid.sched.records import PodRecord
    from hamid.sched.refused import Refused
    from hamid.sched.settings import SchedSettings

log = structlog.get_logger(__name__)

_IDLE_S: Final = 5.0
"""How often to look without news: reservations end without any."""
_PATIENCE_S: Final = 1.0
_ROUND: Final = 20
"""Pods woken in one round: a thousand that could go at once are woken in ten seconds."""
_LOOKED_AT: Final = 500
_REST: Final = 5
"""A fifth of the time at most goes into looking who fits: kube-scheduler's calls, and the renewal of
the lease, want the same interpreter."""
_COMPLAINED_OF: Final = 5


class _Woken(NamedTuple):
    """The last time that a pod was woken.

    Attributes:
        serial: of `Freed`: what became free later is worth another time.
        is_told: the API server has had the annotation, or said that it never will.
    """

    serial: int
    at_s: float
    is_told: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WakerMetrics:
    """How many pods were woken."""

    total: Counter

    @classmethod
    def declared_in(cls, registry: CollectorRegistry) -> WakerMetrics:
        """The metrics, in this registry."""
        return cls(
            total=Counter(
                "hamid_sched_wakes",
                "Waiting pods that were annotated so that kube-scheduler tries them again.",
                ("outcome",),
                registry=registry,
            )
        )


@dataclass(slots=True, kw_only=True)
class Waker:
    """Wakes waiting pods; one for each term of leading.

    Attributes:
        scheduler_name: of the pods that ask us; pods of others are none of our business.
        clock: monotonic.
        wall_clock: seconds since the epoch, for the annotation.
        rest_s: how long to rest after the last round, beside `wake_delay_s`.
    """

    kube: KubePort
    cache: ClusterCache
    refused: Refused
    nominations: Nominations
    leadership: Leadership
    settings: SchedSettings
    scheduler_name: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    metrics: WakerMetrics
    name: str = "waker"
    _woken: dict[str, _Woken] = field(default_factory=dict, init=False)
    _in_vain: dict[str, int] = field(default_factory=dict, init=False)
    _inherited: set[str] = field(default_factory=set, init=False)
    _everywhere: frozenset[str] = field(default=frozenset(), init=False)
    _has_begun: bool = field(default=False, init=False)
    _began_at_s: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)
    rest_s: float = field(default=0.0, init=False)

    async def run(self) -> None:
        """Wake until cancelled."""
        freed, seen = self.cache.freed, 0
        while True:
            await freed.wait(since=seen, timeout_s=_IDLE_S)
            self.cache.reservations()  # lets those end whose time is over
            seen = freed.serial
            await pause(self.settings.wake_delay_s)
            while await self.step():
                await pause(self.settings.wake_delay_s + self.rest_s)

    async def step(self) -> bool:
        """One round; returns whether there may be more to do soon."""
        if not self.settings.wakes_waiting_pods or not self.cache.is_synced:
            return False
        self._inherit()
        serial = self.cache.freed.serial
        waiters = self._waiters()
        if not waiters or not self.leadership.may_act():
            return False
        names = frozenset[str]().union(*{waiter.node_names for waiter in waiters})
        nodes = {name: node for name in names if (node := self.cache.snapshot(name)) is not None}
        began_at_s = self.clock()
        found = await asyncio.to_thread(fitting, waiters, nodes, policies=self.settings.policies)
        self.rest_s = (_REST - 1) * (self.clock() - began_at_s)
        self._in_vain.update(dict.fromkeys(found.in_vain, serial))
        due = (request for request in found.fitting if self._is_due(request.pod_uid))
        for request in islice(due, _ROUND):
            await self._wake(request)
        are_others_left = found.is_cut_short or len(waiters) == _LOOKED_AT
        return bool(found.fitting) or are_others_left

    # Who may have room now.

    def _inherit(self) -> None:
        """Once: pods that wait already were refused by an earlier leader, on what it knew."""
        if not self._has_begun:
            self._has_begun, self._began_at_s = True, self.clock()
            self._inherited = {
                record.pod_uid
                for record in self.cache.pod_records()
                if record.request is not None and record.scheduler_name == self.scheduler_name
            }
            self.cache.freed.everywhere()

    def _waiters(self) -> Sequence[Waiter]:
        """The first in the queue that were not tried since room was freed where they may go."""
        if not self.refused.tries() and not self._inherited:
            return ()
        waiting = {
            record.pod_uid: record
            for record in self.cache.pod_records()
            if record.request is not None and self.cache.reservation(record.pod_uid) is None
        }
        self.refused.keep_only(waiting)
        for known in (self._woken, self._in_vain):
            for pod_uid in known.keys() - waiting.keys():
                known.pop(pod_uid)
        self._inherited &= waiting.keys() - self.refused.tries().keys()
        found: list[Waiter] = []
        if self._inherited:
            self._everywhere = frozenset(node.node_name for node in self.cache.snapshots())
        for record in sorted(waiting.values(), key=_place_in_queue):
            names = self._freed_for(record)
            if record.request is None or not names:
                continue
            found.append(
                Waiter(
                    request=record.request,
                    node_names=names,
                    payer=record.payer,
                    bounds=self.cache.bounds(record.payer),
                    promised=self._promised_before(record),
                )
            )
            if len(found) == _LOOKED_AT:
                break
        return found

    def _promised_before(self, record: PodRecord) -> tuple[PodAllocation, ...]:
        before = self.nominations.before(record.pod_uid, record.priority)
        return tuple(nomination.allocation for nomination in before)

    def _freed_for(self, record: PodRecord) -> frozenset[str]:
        """Where the pod may go and room was freed since it was tried, or looked at in vain.

        Or since it was woken, once it has had its time to take what was free then.
        """
        since = self._in_vain.get(record.pod_uid, 0)
        woken = self._woken.get(record.pod_uid)
        if woken is not None and woken.is_told and self.clock() - woken.at_s > _PATIENCE_S:
            since = max(since, woken.serial)
        return self._freed_since(record, since)

    def _freed_since(self, record: PodRecord, serial: int) -> frozenset[str]:
        """Where the pod may go and room was freed since its last try, and since this serial."""
        pod_uid, namespace, freed = record.pod_uid, record.namespace, self.cache.freed
        last, woken = self.refused.tries().get(pod_uid), self._woken.get(pod_uid)
        if last is not None:
            since = max(last.serial, serial)
            return freed.since(since, among=last.node_names, namespace=namespace)
        is_inherited = pod_uid in self._inherited and (woken is None or not woken.is_told)
        if is_inherited and self.clock() - self._began_at_s >= _IDLE_S:
            return freed.since(serial, among=self._everywhere, namespace=namespace)
        return frozenset()  # kube-scheduler has not asked about it

    def _is_due(self, pod_uid: str) -> bool:
        """Whether to wake it: nobody else has decided meanwhile, and it was not woken for this."""
        record = self.cache.pod(pod_uid)
        if record is None or record.node_name or self.cache.reservation(pod_uid) is not None:
            return False
        woken = self._woken.get(pod_uid)
        if woken is not None and not woken.is_told and self.clock() - woken.at_s <= _PATIENCE_S:
            return False
        since = woken.serial if woken is not None and woken.is_told else 0
        return bool(self._freed_since(record, since))

    # Waking.

    async def _wake(self, request: PodRequest) -> None:
        if not self.leadership.may_act():
            return
        self._woken[request.pod_uid] = _Woken(self.cache.freed.serial, self.clock())
        patch = {
            "metadata": {
                "uid": request.pod_uid,
                "annotations": {wire.POD_ROOM_FREED: format_micro_time(self.wall_clock())},
            }
        }
        outcome = "failed"
        try:
            await self.kube.patch(
                PODS,
                request.pod_name,
                patch,
                kind=PatchKind.MERGE,
                namespace=request.namespace,
            )
            outcome = "woken"
        except (NotFound, Conflict):
            outcome = "gone"
        except KubeError as error:
            self._complain(error)
            if isinstance(error, TooManyRequests | Unavailable):
                woken = self._woken[request.pod_uid]
                self._woken[request.pod_uid] = woken._replace(is_told=False)
        else:
            self._failures = 0
            log.info("waiting pod woken", pod=request.pod_key, pod_uid=request.pod_uid)
        self.metrics.total.labels(outcome).inc()

    def _complain(self, error: KubeError) -> None:
        # One alone may be a pod that was bound in this moment: that is no business of ours any more.
        self._failures += 1
        if self._failures == _COMPLAINED_OF:
            log.warning("waiting pods cannot be woken", error=error.message, hint=error.hint)


def _place_in_queue(record: PodRecord) -> tuple[int, str, str]:
    """kube-scheduler's order, as far as a pod's object tells it."""
    return -record.priority, record.created_at, record.pod_key
