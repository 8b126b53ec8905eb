"""Puts a simulated cluster together and runs it: the daemon's real roles over fakes, in one process.

Start order, by nesting, so that the stop order is its reverse:

    API double → web server → nodes: kubelet, device plugin → scheduler role → stand-ins for
    kube-scheduler and the controllers
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from hamid.aiokit.services import running
from hamid.daemon.conditions import Conditions
from hamid.daemon.debug import DebugPages
from hamid.daemon.explain_pages import ExplainPages
from hamid.daemon.plugin_role import PluginPorts, RoleMetrics
from hamid.daemon.scheduler_role import SchedulerPorts, SchedulerRole
from hamid.daemon.settings import AddressSettings, HookSettings, Identity, Settings
from hamid.daemon.simulate.controller import WorkloadController
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.daemon.simulate.ground import LOOPBACK, port_or_any, short_directory
from hamid.daemon.simulate.node import simulated_node
from hamid.daemon.simulate.outcomes import Outcomes
from hamid.daemon.simulate.roster import Roster, pod_key
from hamid.daemon.simulate.scheduler import SimulatedScheduler
from hamid.daemon.simulate.view import ClusterView, TappedClient, with_patience
from hamid.daemon.simulate.webhook import make_tls, webhook_configuration
from hamid.daemon.simulate.workloads import WORKLOADS
from hamid.kube.client import KubeClient
from hamid.kube.fake import FakeApi, FakeApiServer
from hamid.kube.port import MUTATING_WEBHOOKS
from hamid.kube.settings import KubeSettings
from hamid.kube.watch import Reflector, WatchMetrics
from hamid.kubelet.metrics import KubeletMetrics
from hamid.model.names import NODE_REGISTER
from hamid.nvml.fake import FakeNvml
from hamid.plugin.exporter import NodeCollector
from hamid.plugin.metrics import PluginMetrics
from hamid.sched.extender import PREFIX
from hamid.web.middleware import RequestMetrics
from hamid.web.server import WebServer, WebSite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from hamid.daemon.compose import Clocks
    from hamid.daemon.simulate.node import NodeInSimulation
    from hamid.daemon.simulate.nodes import SimulatedNode
    from hamid.kube.port import JsonObject, KubePort

log = structlog.get_logger(__name__)

STATUS_SITE: Final = "status"
EXTENDER_SITE: Final = "extender"
WEBHOOK_SITE: Final = "webhook"
WEBHOOK_CONFIGURATION: Final = "hamid"
PATIENCE_S: Final = 60.0
"""How long a pod may take to find its place; milliseconds are usual."""


@dataclass(slots=True, kw_only=True)
class SimulatedCluster:
    """A running simulation.

    Attributes:
        kubeconfig: a file for kubectl.
        status_url: where /metrics and /debug are.
    """

    kube: KubePort
    view: ClusterView
    roster: Roster
    scheduler: SimulatedScheduler
    controller: WorkloadController
    outcomes: Outcomes
    nodes: Sequence[NodeInSimulation]
    kubeconfig: Path
    status_url: str

    async def wait_at_rest(self) -> None:
        """Wait until no pod is on its way."""
        await self.view.wait_until(lambda: self.scheduler.is_idle and not self.view.has_unreported)


@asynccontextmanager
async def simulated_cluster(
    nodes: Sequence[SimulatedNode], *, library: Path, clocks: Clocks, status_port: int
) -> AsyncIterator[SimulatedCluster]:
    """Run the cluster for as long as the block lasts; it begins when all cards are registered."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(short_directory())
        api = await stack.enter_async_context(FakeApiServer.serve(FakeApi(clock=clocks.wall)))
        registry, kube_settings = CollectorRegistry(), KubeSettings(server=api.url)
        client = await stack.enter_async_context(
            TappedClient.open(kube_settings, registry=registry)
        )
        client.view = view = ClusterView()
        builder = _Builder(
            kube=client,
            registry=registry,
            clocks=clocks,
            stack=stack,
            settings=Settings(
                identity=Identity(node_name="simulation"),
                kube=kube_settings,
                hooks=HookSettings(library=library, usage_interval_s=1.0),
                addresses=AddressSettings(
                    status_port=port_or_any(status_port), webhook_host=LOOPBACK
                ),
            ),
        )
        role = builder.scheduler_role()
        web = await builder.open_web(role)
        # Numbered: paths of sockets must be short, names of nodes need not be.
        running_nodes = [
            await builder.open_node(node, directory / f"n{number}")
            for number, node in enumerate(nodes)
        ]
        builder.show(role, running_nodes)
        await stack.enter_async_context(role.running())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        extender = ExtenderClient(
            session=session, url=f"http://{LOOPBACK}:{web[EXTENDER_SITE]}{PREFIX}"
        )
        scheduler = SimulatedScheduler(
            kube=client,
            extender=extender,
            view=view,
            our_name=builder.settings.admission.scheduler_name,
            ignored=builder.settings.sched.resources.all(),
            clock=clocks.wall,
        )
        roster = Roster(view=view)
        controller = await builder.open_stand_ins(scheduler, roster)
        await view.wait_until(lambda: _are_registered(view, nodes))
        yield SimulatedCluster(
            kube=client,
            view=view,
            roster=roster,
            scheduler=scheduler,
            controller=controller,
            outcomes=Outcomes(
                view=view,
                roster=roster,
                scheduler=scheduler,
                kubelets={node.name: node.kubelet for node in running_nodes},
                models={card.uuid: card.model for node in running_nodes for card in node.cards},
            ),
            nodes=running_nodes,
            kubeconfig=api.write_kubeconfig(directory / "kubeconfig"),
            status_url=f"http://{LOOPBACK}:{web[STATUS_SITE]}",
        )


async def settle(cluster_view: ClusterView, scheduler: SimulatedScheduler, pod: JsonObject) -> None:
    """Wait until this pod, and whatever followed from it, has come to rest."""
    version = int(pod["metadata"]["resourceVersion"])
    is_at_rest = await with_patience(
        cluster_view,
        lambda: (
            cluster_view.version >= version
            and scheduler.is_idle
            and not cluster_view.has_unreported
        ),
        timeout_s=PATIENCE_S,
    )
    if not is_at_rest:
        log.warning("pod did not come to rest", pod=pod_key(pod), waited_s=PATIENCE_S)


@dataclass(slots=True, kw_only=True)
class _Builder:
    """The steps of the composition, with what they share."""

    kube: TappedClient
    registry: CollectorRegistry
    clocks: Clocks
    settings: Settings
    stack: AsyncExitStack
    conditions: Conditions = field(init=False)
    pages: DebugPages = field(init=False)
    metrics: RoleMetrics = field(init=False)

    def __post_init__(self) -> None:
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.conditions = Conditions(clock=self.clocks.wall)
        self.pages = DebugPages(registry=self.registry, conditions=self.conditions)
        self.pages.pages["settings"] = lambda: self.settings
        self.metrics = RoleMetrics(
            plugin=PluginMetrics.create(self.registry),
            kubelet=KubeletMetrics(self.registry),
            watch=WatchMetrics(self.registry),
        )

    def scheduler_role(self) -> SchedulerRole:
        """The real scheduler role, not yet running."""
        return SchedulerRole.assemble(
            self.settings,
            SchedulerPorts(
                kube=self.kube,
                identity="simulation",
                registry=self.registry,
                watch_metrics=self.metrics.watch,
                clock=self.clocks.monotonic,
                wall_clock=self.clocks.wall,
            ),
        )

    async def open_web(self, role: SchedulerRole) -> dict[str, int]:
        """The web server, and the webhook registered; returns the ports by site."""
        authority, tls = make_tls(now_s=self.clocks.wall())
        addresses = self.settings.addresses
        server = WebServer(
            sites=(
                WebSite(
                    name=STATUS_SITE,
                    host=LOOPBACK,
                    port=addresses.status_port,
                    routes=(
                        *self.pages.routes(),
                        *ExplainPages(explainer=role.explainer()).routes(),
                    ),
                ),
                WebSite(
                    name=EXTENDER_SITE,
                    host=LOOPBACK,
                    port=0,
                    routes=role.extender_routes(),
                    is_private=True,
                ),
                WebSite(
                    name=WEBHOOK_SITE, host=LOOPBACK, port=0, routes=role.webhook_routes(), tls=tls
                ),
            ),
            metrics=RequestMetrics(self.registry),
            clock=self.clocks.monotonic,
            settings=replace(self.settings.web, drain_s=0.1),
        )
        await self.stack.enter_async_context(running(server))
        ports = dict(await server.ports.wait_for(bool))
        configuration = webhook_configuration(
            name=WEBHOOK_CONFIGURATION,
            port=ports[WEBHOOK_SITE],
            authority=authority,
        )
        await self.kube.create(MUTATING_WEBHOOKS, configuration)
        return ports

    async def open_node(self, node: SimulatedNode, root: Path) -> NodeInSimulation:
        """One node, its cards registered with its kubelet."""
        # A client of its own, as in a cluster: each watch holds a connection of its client's pool.
        kube = await self.stack.enter_async_context(
            KubeClient.open(self.settings.kube, registry=CollectorRegistry())
        )
        ports = PluginPorts(
            kube=kube,
            nvml=FakeNvml.of_cards(node.simulated_cards()),
            metrics=self.metrics,
            clock=self.clocks.monotonic,
            wall_clock=self.clocks.wall,
            has_containers=False,
        )
        running_node = simulated_node(node, self.settings, ports, root=root)
        return await self.stack.enter_async_context(running_node)

    def show(self, role: SchedulerRole, nodes: Sequence[NodeInSimulation]) -> None:
        """Fill /metrics, /debug and /readyz."""
        plugins = {node.name: node.plugin for node in nodes if node.plugin is not None}
        self.registry.register(NodeCollector(lambda: tuple(p.books() for p in plugins.values())))
        self.pages.pages.update(role.pages())
        self.conditions.declare("scheduler", role.knows_leader)
        for name, plugin in plugins.items():
            self.conditions.declare(f"kubelet of {name}", plugin.is_registered)
        for page in next((sorted(p.pages()) for p in plugins.values()), ()):
            self.pages.pages[page] = _page_by_node(
                {name: plugin.pages()[page] for name, plugin in plugins.items()}
            )

    async def open_stand_ins(
        self, scheduler: SimulatedScheduler, roster: Roster
    ) -> WorkloadController:
        """The stand-ins for kube-scheduler and the controllers."""
        view = scheduler.view

        async def settled(pod: JsonObject) -> None:
            await settle(view, scheduler, pod)

        controller = WorkloadController(kube=self.kube, view=view, roster=roster, settle=settled)
        view.listeners += [scheduler, controller]
        watches = [
            Reflector(
                kube=self.kube,
                resource=resource,
                sink=controller.sink(resource),
                name=f"{resource.plural}-watch",
                clock=self.clocks.wall,
                metrics=self.metrics.watch,
            )
            for resource in WORKLOADS
        ]
        await self.stack.enter_async_context(running(scheduler, controller, *watches))
        for watch in watches:
            await watch.synced.wait_for(bool)
        return controller


def _page_by_node(pages: dict[str, Callable[[], Any]]) -> Callable[[], Any]:
    return lambda: {name: page() for name, page in pages.items()}


def _are_registered(view: ClusterView, nodes: Sequence[SimulatedNode]) -> bool:
    """Whether the scheduler role knows every node and its cards."""
    for node in nodes:
        known = view.nodes.get(node.name)
        if known is None:
            return False
        is_registered = NODE_REGISTER in (known["metadata"].get("annotations") or {})
        if node.card_count and not is_registered:
            return False
    return True
