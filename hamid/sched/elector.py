"""The service that holds the Lease, or waits for it, by client-go's rules (`model.lease`).

Invariants:

1. `may_act` is true only while less than the renew deadline has passed since the last renewal was
   *sent*, by the clock at the moment of asking. A loop that is stuck, or a process that was
   frozen, cannot make it true. The clock should go on while the machine sleeps
   (`CLOCK_BOOTTIME`).
2. A term once over stays over, even if a renewal under way is done after all: the work that saw
   its end has stopped. A new one begins only when all of that work has.
3. The lease is released only after the leader-only work has stopped: run the elector outside,
   `leadership` inside.
4. A lease that was deleted counts as it was last seen until it would have expired: deleting it
   makes no second leader.

What it does not give is fencing: a write that was sent in time may arrive late. Writes therefore
carry preconditions besides. The identity must be unique among all processes that are alive.

A replica that the API server does not let sign up or lead (its node may be one that must not) is
barred: it only learns who leads, and asks again after `BARRED_S`.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter, Gauge

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.farewell import last_words
from hamid.aiokit.latest import Latest
from hamid.aiokit.ticker import every
from hamid.codec.lease import decode_lease, encode_lease, format_micro_time
from hamid.codec.standbys import (
    decode_served,
    decode_standbys,
    encode_candidate,
    encode_served,
    encode_standbys,
)
from hamid.errors import AnnotationError, KubeError, WireError
from hamid.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from hamid.kube.port import LEASES
from hamid.model.lease import LeaseRecord, LeaseStep, Observation, next_step, observe
from hamid.sched import lease_polling as polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prometheus_client import CollectorRegistry

    from hamid.kube.port import JsonObject, KubePort
    from hamid.sched.leader_settings import LeaseSettings

log = structlog.get_logger(__name__)

FAREWELL_S = 2.0
BARRED_S = 1_800.0
RELEASED_DURATION_S = 1.0
"""The duration written at release, as client-go does: nobody has to wait for it."""


class ElectorMetrics:
    """Whether this replica leads, and how its looks at the lease fare."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.is_leader = Gauge(
            "hamid_sched_is_leader", "1 while this replica leads.", registry=registry
        )
        self.failures = Counter(
            "hamid_sched_lease_failures_total",
            "Looks at the lease, and renewals, that failed.",
            registry=registry,
        )


@dataclass(slots=True, kw_only=True)
class LeaseElector:
    """Holds the lease while it can; implements `Leadership`.

    Attributes:
        identity: who we are, on the lease: the node, an underscore, and the UID of the pod, say.
            With that a container that crashed goes on at once, while another pod has to wait for
            the lease to expire. Admission policies know a replica by its node's name in front.
        clock: monotonic seconds.
        wall_clock: seconds since 1970; written for people, decides nothing.
        served: the fingerprint of what the leader serves with, by the lease, at which all look anyway.
    """

    kube: KubePort
    settings: LeaseSettings
    identity: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    metrics: ElectorMetrics
    rng: random.Random = field(default_factory=random.Random, repr=False)
    name: str = "lease-elector"
    served: Latest[str] = field(default_factory=lambda: Latest(""), init=False)
    _leads: Latest[bool] = field(default_factory=lambda: Latest(False), init=False)  # noqa: FBT003 - a value
    _renewed_at_s: float = field(default=0.0, init=False)
    _is_working: bool = field(default=False, init=False)
    _lease: JsonObject | None = field(default=None, init=False, repr=False)
    _observation: Observation | None = field(default=None, init=False)
    _look: polling.Look | None = field(default=None, init=False)
    _is_settled: bool = field(default=False, init=False)
    _standbys_since_s: float = field(default=0.0, init=False)
    _is_failing: bool = field(default=False, init=False)
    _barred_until_s: float | None = field(default=None, init=False)
    _backoff: Backoff = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._backoff = Backoff(
            first_s=settings.retry_period_s, max_s=settings.slow_poll_s, rng=self.rng
        )

    # What others ask.

    def may_act(self) -> bool:
        """Whether this replica may write to the cluster at this moment."""
        return self._leads.get() and self._is_fresh()

    @property
    def holder(self) -> str:
        """Who leads, as last seen; empty when nobody did."""
        record = self._observation.record if self._observation is not None else None
        return record.holder_identity if record is not None else ""

    @asynccontextmanager
    async def leadership(self) -> AsyncIterator[None]:
        """Wait until this replica leads; the block is the leader-only work.

        The block should end soon after `wait_lost`: until it has, the lease is neither released
        nor taken again.
        """
        while not self.may_act():  # one who leads without being fresh will notice in its next step
            await self._leads.wait_change(since=self._leads.version)
        self._is_working = True
        try:
            yield
        finally:
            self._is_working = False

    async def wait_lost(self) -> None:
        """Wait until this replica no longer leads, even if the loop that renews is stuck."""
        async for _ in every(self.settings.retry_period_s / 2):
            if not self.may_act():
                return

    def announce(self, fingerprint: str) -> None:
        """Have all told, with the next renewal; one under way undoes it, so say it now and then."""
        self.served.publish(fingerprint)

    # The service.

    async def run(self) -> None:
        """Hold the lease, or wait for it, until cancelled; then let go of it."""
        try:
            while True:  # noqa: ASYNC110 - each step says when the next is due
                await asyncio.sleep(await self.step())
        finally:
            if self._leads.get():
                await last_words(self.release(), what="release the lease", timeout_s=FAREWELL_S)

    async def step(self) -> float:
        """Look, and do what follows; returns how long to wait before the next step."""
        if self._leads.get() and not self._is_fresh():
            self._lose("it could not be renewed in time")
        try:
            delay_s = await self._elect()
        except (KubeError, WireError) as error:
            self._fail(error)
            return self._retry_delay_s()
        if self._is_failing:
            log.info("lease reachable again", lease=self.settings.name)
        self._is_failing = False
        self._backoff.reset()
        return delay_s

    async def release(self) -> None:
        """Stop acting, then say on the lease that nobody holds it."""
        if self._is_working:
            log.error(
                "lease kept",
                hint="leader-only work still runs; this is a bug: stop it before the elector",
            )
            return
        lease, record = self._lease, self._record()
        self._lose("it was released")
        if lease is None or record is None:
            return
        released = replace(record, holder_identity="", lease_duration_s=RELEASED_DURATION_S)
        try:
            await self._let_go(lease, released)
        except Conflict:  # somebody has signed up since we last saw it
            await self._read()
            if self._lease is not None and self.holder == self.identity:
                await self._let_go(self._lease, released)

    async def _let_go(self, lease: JsonObject, released: LeaseRecord) -> None:
        base = encode_candidate(is_candidate=False, base=lease)
        await self.kube.replace(LEASES, encode_lease(self._stamped(released), base=base))

    # One election.

    async def _elect(self) -> float:
        """Take the step that the rules say; a conflict means that it must be decided anew."""
        if not self._leads.get():
            await self._read()
        try:
            return await self._act()
        except Forbidden as error:
            if self._leads.get():
                raise
            return self._bar(error)
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and self._lease is None:
                raise  # not the lease is missing, but its namespace
            await self._read()
            if not self._leads.get():
                return polling.sign_up_delay_s(self.settings, self.rng)
            return await self._act()

    async def _act(self) -> float:
        now_s = self.clock()
        observation = self._observation or Observation(record=None, observed_at_s=now_s)
        step = next_step(observation, identity=self.identity, now_s=now_s)
        if step is LeaseStep.WAIT:
            if self._leads.get():
                self._lose("another replica took it")
            return await self._follow(now_s)
        if not self._can_lead(now_s):
            return self._slow_delay_s()
        if self._is_working and not self._leads.get():
            return self.settings.retry_period_s
        await self._write(step, observation.record)
        return self.settings.retry_period_s

    async def _write(self, step: LeaseStep, record: LeaseRecord | None) -> None:
        """Create the lease, take it or renew it; whoever was first wins."""
        sent_at_s = self.clock()
        transitions = record.transitions if record is not None else 0
        wanted = self._stamped(
            LeaseRecord(
                holder_identity=self.identity,
                lease_duration_s=self.settings.lease_duration_s,
                renewed_at="",
                transitions=transitions + (step is LeaseStep.ACQUIRE),
            )
        )
        is_new_term = step is not LeaseStep.RENEW or not self._leads.get()
        base = self._with_standbys_due(self._lease or self._new_lease(), is_new_term=is_new_term)
        base = encode_candidate(is_candidate=step is not LeaseStep.RENEW, base=base)
        body = encode_lease(wanted, base=encode_served(self.served.get(), base=base))
        if self._lease is None:
            lease = await self.kube.create(LEASES, body, namespace=self.settings.namespace)
        else:
            lease = await self.kube.replace(LEASES, body)
        self._see(lease)
        if self._leads.get() and not self._is_fresh():
            # Work may have seen it end, and stopped for good: only a new term starts it again.
            self._lose("it was renewed too late")
            return
        self._renewed_at_s = sent_at_s
        if not self._leads.get():
            log.info("leadership gained", identity=self.identity, transitions=wanted.transitions)
            self.metrics.is_leader.set(1)
            self._leads.publish(True)  # noqa: FBT003 - a value

    async def _read(self) -> None:
        settings = self.settings
        try:
            lease = await self.kube.get(LEASES, settings.name, namespace=settings.namespace)
        except NotFound:
            self._lease = None
            if self._has_expired():
                self._observation = observe(self._observation, None, now_s=self.clock())
            return
        self._see(lease)

    def _see(self, lease: JsonObject) -> None:
        self._lease = lease
        self._observation = observe(self._observation, decode_lease(lease), now_s=self.clock())
        self.served.publish(decode_served(lease))

    # Following.

    async def _follow(self, now_s: float) -> float:
        """Sign up as a standby if there is room; returns how long to wait before the next look."""
        settings, record, lease = self.settings, self._record(), self._lease
        before, self._look = self._look, polling.Look(record=record, at_s=now_s) if record else None
        if not self._can_lead(now_s):
            return self._slow_delay_s()
        if lease is None:
            return polling.sign_up_delay_s(settings, self.rng)
        standbys = _standbys(lease)
        if self.identity in standbys:
            return polling.standby_delay_s(settings, self.rng)
        if len(standbys) < settings.standby_count:
            body = encode_standbys((*standbys, self.identity), base=lease)
            body = encode_candidate(is_candidate=True, base=body)
            self._see(await self.kube.replace(LEASES, body))
            return polling.standby_delay_s(settings, self.rng)
        if self._look is not None and polling.is_overdue(before, self._look, settings=settings):
            return polling.confirm_delay_s(settings, self.rng)
        return self._slow_delay_s()

    def _can_lead(self, now_s: float) -> bool:
        if self._barred_until_s is not None and now_s >= self._barred_until_s:
            self._barred_until_s = None
        return self.settings.can_lead and self._barred_until_s is None

    def _bar(self, error: Forbidden) -> float:
        log.info("lease barred", identity=self.identity, error=error.message, hint=error.hint)
        self._barred_until_s = self.clock() + BARRED_S
        return self._slow_delay_s()

    def _slow_delay_s(self) -> float:
        is_first, self._is_settled = not self._is_settled, True
        return polling.slow_delay_s(self.settings, self.rng, is_first=is_first)

    def _with_standbys_due(self, lease: JsonObject, *, is_new_term: bool) -> JsonObject:
        """The lease without its standbys when they have to sign up again."""
        now_s = self.clock()
        if not is_new_term and now_s < self._standbys_since_s + self.settings.standby_term_s:
            return lease
        self._standbys_since_s = now_s
        return encode_standbys((), base=lease)

    # Small things.

    def _is_fresh(self) -> bool:
        return self.clock() < self._renewed_at_s + self.settings.renew_deadline_s

    def _has_expired(self) -> bool:
        """Whether the record as last seen would have expired by now."""
        observation = self._observation
        if observation is None or observation.record is None:
            return True
        step = next_step(observation, identity=self.identity, now_s=self.clock())
        return step is not LeaseStep.WAIT

    def _record(self) -> LeaseRecord | None:
        return self._observation.record if self._observation is not None else None

    def _stamped(self, record: LeaseRecord) -> LeaseRecord:
        return replace(record, renewed_at=format_micro_time(self.wall_clock()))

    def _new_lease(self) -> JsonObject:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.settings.name, "namespace": self.settings.namespace},
        }

    def _lose(self, reason: str) -> None:
        if not self._leads.get():
            return
        log.info("leadership lost", identity=self.identity, reason=reason, holder=self.holder)
        self.metrics.is_leader.set(0)
        self._leads.publish(False)  # noqa: FBT003 - a value

    def _fail(self, error: KubeError | WireError) -> None:
        self.metrics.failures.inc()
        if not self._is_failing:
            log.warning("lease unreachable", error=error.message, hint=error.hint)
        self._is_failing = True

    def _retry_delay_s(self) -> float:
        """After a failure: those who look closely go on doing so, the others ever more slowly."""
        if self._leads.get() or (self._lease and self.identity in _standbys(self._lease)):
            return self.settings.retry_period_s
        return self._backoff.next_delay_s()


def _standbys(lease: JsonObject) -> tuple[str, ...]:
    """The standbys; an annotation that somebody broke counts as none, and is written anew."""
    try:
        return decode_standbys(lease)
    except AnnotationError as error:
        log.warning("standbys unreadable", error=error.message, hint=error.hint)
        return ()
