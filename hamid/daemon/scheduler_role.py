"""Puts the scheduler role together: webhook on every replica, everything else on the leader."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hamid.aiokit.services import running
from hamid.daemon.heap import HeapKeeper
from hamid.kube.events import EventWriter
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS
from hamid.kube.watch import Reflector
from hamid.sched.admission import Admission, AdmissionMetrics
from hamid.sched.admission_rules import Rules
from hamid.sched.bind import Binder, BindMetrics
from hamid.sched.cache import ClusterCache
from hamid.sched.elector import ElectorMetrics, LeaseElector
from hamid.sched.explainer import Explainer
from hamid.sched.extender import PREFIX, Extender, ExtenderMetrics
from hamid.sched.leader_work import LeaderWork
from hamid.sched.lookup import PodLookup
from hamid.sched.nominations import Nominations
from hamid.sched.preempt_verb import PreemptVerb
from hamid.sched.preemptor import PreemptionMetrics, Preemptor
from hamid.sched.quota_lookup import QuotaLookup
from hamid.sched.quotas import HamiQuotaCollector, LegacyQuotaCollector
from hamid.sched.sinks import NodeSink, PodSink, QuotaSink
from hamid.sched.waiting_events import WaitingEvents
from hamid.sched.waker import Waker, WakerMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from aiohttp.web import AbstractRouteDef
    from prometheus_client import CollectorRegistry

    from hamid.aiokit.services import Service
    from hamid.daemon.settings import Settings
    from hamid.kube.port import KubePort
    from hamid.kube.watch import WatchMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPorts:
    """What the role is handed: outside systems, clocks and metrics.

    Attributes:
        clock, wall_clock: monotonic seconds, and seconds since 1970.
        identity: of this replica on the lease; unique among all that live.
    """

    kube: KubePort
    identity: str
    registry: CollectorRegistry
    watch_metrics: WatchMetrics
    clock: Callable[[], float]
    wall_clock: Callable[[], float]


@dataclass(slots=True, kw_only=True)
class SchedulerRole:
    """The scheduler's parts, as the rest of the daemon sees them.

    Attributes:
        has_no_label: only for want of the label of nodes that may lead it takes no part in the election.
    """

    settings: Settings
    ports: SchedulerPorts
    elector: LeaseElector
    cache: ClusterCache
    extender: Extender
    admission: Admission
    waker_metrics: WakerMetrics
    preemptor: Preemptor
    has_no_label: bool = False

    @classmethod
    def assemble(cls, settings: Settings, ports: SchedulerPorts) -> SchedulerRole:
        """The parts, not yet running."""
        registry = ports.registry
        elector = LeaseElector(
            kube=ports.kube.within(settings.lease.request_deadline_s),
            settings=settings.lease,
            identity=ports.identity,
            clock=ports.clock,
            wall_clock=ports.wall_clock,
            metrics=ElectorMetrics(registry),
        )
        cache = ClusterCache(settings=settings.sched, clock=ports.clock, registry=registry)
        if settings.hami_metrics:
            HamiQuotaCollector(cache.quotas, registry)
        if settings.hami_legacy_metrics:
            LegacyQuotaCollector(cache.quotas, registry)
        extender = _extender(settings, ports, elector, cache)
        return cls(
            settings=settings,
            ports=ports,
            elector=elector,
            cache=cache,
            extender=extender,
            admission=_admission(settings, ports),
            waker_metrics=WakerMetrics.declared_in(registry),
            preemptor=_preemptor(settings, ports, elector, extender, cache),
        )

    @property
    def leader_kube(self) -> KubePort:
        """The API server, to which nothing is written unless this replica leads."""
        return _leader_kube(self.ports, self.elector)

    def only_follow(self, *, has_no_label: bool = False) -> None:
        """Take no part in the election: the replica of this node may not lead, for now or for ever."""
        self.has_no_label = has_no_label
        self.elector.settings = replace(self.elector.settings, can_lead=False)

    def take_part(self) -> None:
        """Take part in the election after all."""
        self.has_no_label = False
        self.elector.settings = replace(self.elector.settings, can_lead=True)

    def webhook_routes(self) -> Sequence[AbstractRouteDef]:
        """What the API server calls."""
        return self.admission.routes()

    def extender_routes(self) -> Sequence[AbstractRouteDef]:
        """What kube-scheduler calls."""
        verb = PreemptVerb(cache=self.cache, preemptor=self.preemptor)
        return [*self.extender.routes(), *verb.routes(PREFIX)]

    def explainer(self) -> Explainer:
        """What people ask about pods."""
        return Explainer(
            cache=self.cache,
            verdicts=self.extender.explanations,
            refused=self.extender.refused,
            nominations=self.extender.nominations,
            leadership=self.elector,
            settings=self.settings.sched,
        )

    def pages(self) -> Mapping[str, Callable[[], Any]]:
        """What /debug shows of this role."""
        cache = self.cache
        return {
            "leases": lambda: {
                "holder": self.elector.holder,
                "identity": self.ports.identity,
                "may_act": self.elector.may_act(),
            },
            "cache": lambda: {
                "is_synced": cache.is_synced,
                "nodes": cache.snapshots(),
                "node_problems": cache.node_problems(),
                "pods": cache.pod_records(),
                "reservations": cache.reservations(),
                "quotas": [{"quota": quota, "used": used} for quota, used in cache.quotas.all()],
                "quota_remarks": cache.quotas.remarks(),
            },
            "nominations": lambda: tuple(self.extender.nominations),
            "verdicts": self.extender.explanations.all,
        }

    def knows_leader(self) -> tuple[bool, str]:
        """Whether this replica can serve its part: it leads and is synced, or it follows."""
        if not self.elector.may_act():
            why = "; its node lacks the label of those that may lead" if self.has_no_label else ""
            return True, f"follows {self.elector.holder or 'nobody yet'}{why}"
        if self.cache.is_synced:
            return True, "leads"
        return False, "leads, but the cluster is not listed yet"

    @asynccontextmanager
    async def running(self, *makers: Callable[[], Service]) -> AsyncIterator[None]:
        """Elect, and lead when it is our turn, for as long as the block lasts.

        Args:
            makers: of what only the leader does, called anew for each term.
        """
        work = LeaderWork(
            elector=self.elector,
            services=lambda: self._leader_services(makers),
            ended=self.cache.reset,  # nobody keeps it up to date any more
        )
        # Leader-only work is inside: it has stopped before the lease is released.
        async with running(self.elector), running(work):
            yield

    def _leader_services(self, makers: Sequence[Callable[[], Service]]) -> list[Service]:
        # A call that was under way when the last term ended may have reserved room since.
        self.cache.reset()
        heap = HeapKeeper(is_settled=lambda: self.cache.is_synced)
        own = (self._waker(), self.preemptor, self._waiting_events(), heap)
        return [*self._watches(), *own, *(make() for make in makers)]

    def _waiting_events(self) -> Service:
        ports = self.ports
        return WaitingEvents(
            explainer=self.explainer(),
            cache=self.cache,
            writer=_writer(self.settings, ports, self.elector),
            settings=self.settings.sched,
            clock=ports.clock,
        )

    def _waker(self) -> Service:
        return Waker(
            kube=self.leader_kube,
            cache=self.cache,
            refused=self.extender.refused,
            nominations=self.extender.nominations,
            leadership=self.elector,
            settings=self.settings.sched,
            scheduler_name=self.settings.admission.scheduler_name,
            clock=self.ports.clock,
            wall_clock=self.ports.wall_clock,
            metrics=self.waker_metrics,
        )

    def _watches(self) -> tuple[Service, ...]:
        cache, ports = self.cache, self.ports
        pods = PodSink(cache)
        return tuple(
            Reflector(
                kube=ports.kube,
                resource=resource,
                sink=sink,
                in_slices=in_slices,
                name=name,
                clock=ports.wall_clock,
                metrics=ports.watch_metrics,
            )
            for resource, sink, in_slices, name in (
                (NODES, NodeSink(cache), None, "node-watch"),
                (PODS, pods, pods.replace_in_slices, "pod-watch"),
                (RESOURCE_QUOTAS, QuotaSink(cache), None, "quota-watch"),
            )
        )


def _admission(settings: Settings, ports: SchedulerPorts) -> Admission:
    names = settings.sched.resources
    return Admission(
        metrics=AdmissionMetrics(ports.registry),
        rules=_rules(settings),
        quotas=QuotaLookup(kube=ports.kube, names=names, clock=ports.clock),
    )


def _leader_kube(ports: SchedulerPorts, elector: LeaseElector) -> KubePort:
    return ports.kube.guarded(elector.may_act)


def _writer(settings: Settings, ports: SchedulerPorts, elector: LeaseElector) -> EventWriter:
    return EventWriter(
        kube=_leader_kube(ports, elector),
        clock=ports.wall_clock,
        host=settings.identity.node_name,
    )


def _extender(
    settings: Settings, ports: SchedulerPorts, elector: LeaseElector, cache: ClusterCache
) -> Extender:
    lookup = PodLookup(kube=ports.kube, cache=cache)
    binder = Binder(
        kube=_leader_kube(ports, elector),
        cache=cache,
        lookup=lookup,
        leadership=elector,
        nominations=Nominations(clock=ports.clock, freed=cache.freed.on),
        settings=settings.sched,
        wall_clock=ports.wall_clock,
        metrics=BindMetrics.declared_in(ports.registry),
    )
    return Extender(
        cache=cache,
        lookup=lookup,
        binder=binder,
        leadership=elector,
        settings=settings.sched,
        clock=ports.clock,
        wall_clock=ports.wall_clock,
        metrics=ExtenderMetrics.declared_in(ports.registry),
    )


def _preemptor(
    settings: Settings,
    ports: SchedulerPorts,
    elector: LeaseElector,
    extender: Extender,
    cache: ClusterCache,
) -> Preemptor:
    return Preemptor(
        kube=_leader_kube(ports, elector),
        writer=_writer(settings, ports, elector),
        cache=cache,
        refused=extender.refused,
        nominations=extender.nominations,
        leadership=elector,
        settings=settings.sched,
        clock=ports.clock,
        wall_clock=ports.wall_clock,
        metrics=PreemptionMetrics.declared_in(ports.registry),
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        settings=settings.admission,
        resources=settings.sched.resources,
        defaults=settings.sched.defaults,
        spells_out=settings.plugin.advertise_amounts,
    )
