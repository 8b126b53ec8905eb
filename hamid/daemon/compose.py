"""Builds the daemon: ports first, then the roles, by plain constructor calls.

Start order, by nesting, so that the stop order is its reverse:

    API client → web server (alive, not ready) → device plugin (books and cards read, then the
    kubelet is told) → certificates → lease elector → leader-only work

Nothing up to the certificates waits for the API server: where it is away, the node's cards are
registered with the kubelet all the same, and the rest begins when it is back.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.endpoints import ServerAddress
from hamid.daemon.conditions import Conditions
from hamid.daemon.debug import DebugPages
from hamid.daemon.driver import open_driver
from hamid.daemon.explain_pages import ExplainPages
from hamid.daemon.features import discover
from hamid.daemon.patience import until_answered
from hamid.daemon.plugin_role import PluginPorts, RoleMetrics, plugin_role
from hamid.daemon.scheduler_role import SchedulerPorts, SchedulerRole
from hamid.daemon.settings import Switch
from hamid.kube.client import KubeClient
from hamid.kube.port import NODES
from hamid.kube.watch import WatchMetrics
from hamid.kubelet.metrics import KubeletMetrics
from hamid.plugin.exporter import NodeCollector
from hamid.plugin.metrics import PluginMetrics
from hamid.sched.certificates import CertificateKeeper, CertificateReader
from hamid.sched.endpoint import LeaderEndpoint
from hamid.web.certs import ServerTls
from hamid.web.middleware import RequestMetrics
from hamid.web.server import WebServer, WebSite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from aiohttp.web import AbstractRouteDef

    from hamid.aiokit.services import Service
    from hamid.daemon.plugin_role import PluginRole
    from hamid.daemon.settings import LeaderNodes, Settings
    from hamid.kube.port import JsonObject, KubePort, WatchEvent
    from hamid.nvml.port import NvmlPort

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A running daemon."""

    settings: Settings
    web: WebServer
    conditions: Conditions
    scheduler: SchedulerRole | None
    plugin: PluginRole | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Monotonic seconds that go on while the machine sleeps, and seconds since 1970."""

    monotonic: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    wall: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_REALTIME)


@asynccontextmanager
async def daemon(settings: Settings, *, clocks: Clocks | None = None) -> AsyncIterator[Daemon]:
    """Run the daemon for as long as the block lasts."""
    clocks = clocks or Clocks()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(KubeClient.open(settings.kube, registry=registry))
        parts = _Parts.of(settings, kube, registry, clocks)
        scheduler = parts.scheduler()
        web = await parts.open_web(stack, scheduler)
        nvml = await open_driver(stack, settings)
        plugin = await parts.open_plugin(stack, nvml) if nvml is not None else None
        if scheduler is not None:
            await parts.open_scheduler(stack, scheduler, web.ports.get()["extender"])
        parts.started.set()
        log.info("daemon started", node=settings.identity.node_name, has_plugin=plugin is not None)
        yield Daemon(
            settings=settings,
            web=web,
            conditions=parts.conditions,
            scheduler=scheduler,
            plugin=plugin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What the roles are built from."""

    settings: Settings
    kube: KubePort
    registry: CollectorRegistry
    clocks: Clocks
    conditions: Conditions
    pages: DebugPages
    watch_metrics: WatchMetrics
    started: asyncio.Event = field(default_factory=asyncio.Event)
    node_may_lead: Latest[bool] = field(default_factory=lambda: Latest(False))  # noqa: FBT003 - a value
    webhook_tls: ServerTls = field(default_factory=ServerTls)
    extender_tls: ServerTls = field(
        default_factory=lambda: ServerTls(wants_client_certificate=True)
    )

    @classmethod
    def of(
        cls, settings: Settings, kube: KubePort, registry: CollectorRegistry, clocks: Clocks
    ) -> _Parts:
        conditions = Conditions(clock=clocks.wall)
        pages = DebugPages(
            registry=registry, conditions=conditions, is_open=settings.addresses.debug_is_open
        )
        pages.pages["settings"] = lambda: settings
        parts = cls(
            settings=settings,
            kube=kube,
            registry=registry,
            clocks=clocks,
            conditions=conditions,
            pages=pages,
            watch_metrics=WatchMetrics(registry),
        )
        # The other conditions are declared one by one: ready is who has declared all of them.
        conditions.declare("started", parts.has_started)
        return parts

    def has_started(self) -> tuple[bool, str]:
        """Whether all parts have begun."""
        return self.started.is_set(), "yes" if self.started.is_set() else "the parts are starting"

    def scheduler(self) -> SchedulerRole | None:
        """The scheduler role, not yet running."""
        if self.settings.roles.scheduler is Switch.NEVER:
            return None
        identity = self.settings.identity
        role = SchedulerRole.assemble(
            self.settings,
            SchedulerPorts(
                kube=self.kube,
                # Unique among all that live: a restarted process is another one. It begins with
                # the node, to which the chart's admission policies hold it.
                identity=f"{identity.node_name}_{secrets.token_hex(4)}",
                registry=self.registry,
                watch_metrics=self.watch_metrics,
                clock=self.clocks.monotonic,
                wall_clock=self.clocks.wall,
            ),
        )
        self.pages.pages.update(role.pages())
        self.conditions.declare("scheduler", role.knows_leader)
        return role

    async def open_web(self, stack: AsyncExitStack, scheduler: SchedulerRole | None) -> WebServer:
        """The web server, listening."""
        server = WebServer(
            sites=self._sites(scheduler),
            metrics=RequestMetrics(self.registry),
            clock=self.clocks.monotonic,
            settings=self.settings.web,
        )
        await stack.enter_async_context(running(server))
        await server.ports.wait_for(bool)
        return server

    async def open_plugin(self, stack: AsyncExitStack, nvml: NvmlPort) -> PluginRole:
        """The device plugin, registered."""
        ports = PluginPorts(
            kube=self.kube,
            nvml=nvml,
            metrics=RoleMetrics(
                plugin=PluginMetrics.create(self.registry),
                kubelet=KubeletMetrics(self.registry),
                watch=self.watch_metrics,
            ),
            clock=self.clocks.monotonic,
            wall_clock=self.clocks.wall,
            own_node=LeaderLabel(wanted=self.settings.leader_nodes, is_there=self.node_may_lead),
        )
        role = await stack.enter_async_context(plugin_role(self.settings, ports))
        self.registry.register(
            NodeCollector(
                lambda: (role.books(),),
                with_hami_names=self.settings.hami_metrics,
                with_legacy_names=self.settings.hami_legacy_metrics,
            )
        )
        self.pages.pages.update(role.pages())
        self.conditions.declare("kubelet", role.is_registered)
        self.conditions.declare("own-pods", role.is_synced)
        return role

    async def open_scheduler(self, stack: AsyncExitStack, role: SchedulerRole, port: int) -> None:
        """The scheduler role, on its way into the election.

        Args:
            stack: what ends all of it.
            role: the scheduler role, not yet running.
            port: where the extender listens.
        """
        self.conditions.declare("certificates", self._has_certificates)
        reader = CertificateReader(
            kube=self.kube,
            settings=self.settings.certificates,
            targets=(self.webhook_tls, self.extender_tls),
            served=role.elector.served,
        )
        start = SchedulerStart(
            role=role,
            reader=reader,
            look_around=lambda: self._look_around(role),
            makers=self._leader_only(role, port),
            node_may_lead=self.node_may_lead,
        )
        await stack.enter_async_context(running(start))

    def _leader_only(self, role: SchedulerRole, port: int) -> Sequence[Callable[[], Service]]:
        """Makers of what only the leader runs beside its watches, called anew for each term."""
        own = self.settings
        address = ServerAddress(
            address=own.identity.pod_ip,
            port=port,
            port_name=own.endpoint.port_name,
            node_name=own.identity.node_name,
        )
        return (
            lambda: CertificateKeeper(
                kube=role.leader_kube,
                leadership=role.elector,
                settings=own.certificates,
                targets=(self.webhook_tls, self.extender_tls),
                announce=role.elector.announce,
                wall_clock=self.clocks.wall,
            ),
            lambda: LeaderEndpoint(
                kube=role.leader_kube,
                leadership=role.elector,
                server=address,
                settings=own.endpoint,
            ),
        )

    async def _look_around(self, role: SchedulerRole) -> None:
        """Find out what must be known before this replica takes part in the election."""
        if not await may_lead(self.settings, self.kube):
            role.only_follow(has_no_label=self.settings.lease.can_lead)
        await discover(self.kube)

    def _has_certificates(self) -> tuple[bool, str]:
        is_loaded = self.webhook_tls.is_loaded
        return is_loaded, "loaded" if is_loaded else "the leader has not made them yet"

    def _sites(self, scheduler: SchedulerRole | None) -> tuple[WebSite, ...]:
        own = self.settings.addresses
        routes: list[AbstractRouteDef] = [*self.pages.routes()]
        if scheduler is not None:
            explainer = scheduler.explainer()
            routes += ExplainPages(explainer=explainer, is_open=own.debug_is_open).routes()
        status = WebSite(
            name="status", host=own.status_host, port=own.status_port, routes=tuple(routes)
        )
        if scheduler is None:
            return (status,)
        webhook = WebSite(
            name="webhook",
            host=own.webhook_host,
            port=own.webhook_port,
            routes=scheduler.webhook_routes(),
            tls=self.webhook_tls,
        )
        extender = WebSite(
            name="extender",
            host=own.extender_host,
            port=own.extender_port,
            routes=scheduler.extender_routes(),
            tls=None if own.extender_is_plain else self.extender_tls,
            is_private=True,
        )
        return (status, webhook, extender)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStart:
    """Serves with certificates, then elects, as soon as the API server answers; a service.

    Attributes:
        look_around: finds out what must be known before the election; raises `KubeError`.
        makers: of what only the leader does.
        node_may_lead: whether the node has been seen with the label of those that may lead.
    """

    role: SchedulerRole
    reader: CertificateReader
    look_around: Callable[[], Awaitable[None]]
    makers: Sequence[Callable[[], Service]]
    node_may_lead: Latest[bool]
    name: str = "scheduler"

    async def run(self) -> None:
        """Take part until cancelled."""
        async with running(self.reader):
            await until_answered(self.look_around, what="election of a leader")
            async with self.role.running(*self.makers):
                await self.node_may_lead.wait_for(lambda may: may and self.role.has_no_label)
                log.info("node may lead from now on")
            # Anew, for who only follows looks at the lease once in minutes.
            self.role.take_part()
            async with self.role.running(*self.makers):
                await asyncio.Event().wait()


async def may_lead(settings: Settings, kube: KubePort) -> bool:
    """Whether the replica of this node may lead at all."""
    wanted = settings.leader_nodes
    if not settings.lease.can_lead:
        return False
    if not wanted.label:
        return True
    return has_label(await kube.get(NODES, settings.identity.node_name), wanted)


def has_label(node: JsonObject, wanted: LeaderNodes) -> bool:
    """Whether the node is one of those whose replicas may lead."""
    labels = node["metadata"].get("labels") or {}
    return not wanted.label or labels.get(wanted.label) == wanted.value


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLabel:
    """Sees the label on this node's own watch; a sink."""

    wanted: LeaderNodes
    is_there: Latest[bool]

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """The node, as it is listed."""
        for node in objects:
            self._see(node)

    def apply(self, event: WatchEvent) -> None:
        """The node has changed."""
        self._see(event.object)

    def _see(self, node: JsonObject) -> None:
        is_there = has_label(node, self.wanted)
        if is_there != self.is_there.get():
            self.is_there.publish(is_there)
