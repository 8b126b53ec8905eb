"""Puts the device plugin role of one node together, and runs it."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.blocking import OneThread
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.daemon.features import KubeletProbe
from hamid.hooks.abi.injection import MemoryTerms
from hamid.hooks.install import install_library
from hamid.hooks.lending import ContainerDirs, Lender, LoadSampler, MemoryWeigher
from hamid.hooks.monitor import UsageMonitor
from hamid.kube.port import NODES, PODS
from hamid.kube.watch import OnceListed, Reflector, TwoSinks
from hamid.kubelet.checkpoint import CheckpointFile
from hamid.kubelet.constants import CHECKPOINT_NAME, KUBELET_SOCKET_NAME, PODS_API_SOCKET
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.pods_api import PodsApiClient
from hamid.kubelet.registration import Registrar
from hamid.model.node import NodeInventory
from hamid.plugin.admission_view import AdmissionView
from hamid.plugin.amounts_writer import AmountsDeriver, AmountsWriter
from hamid.plugin.books import NodeBooks
from hamid.plugin.events import NodeEvents
from hamid.plugin.grants import GrantFiles
from hamid.plugin.health import DeviceView, EventListener, HealthPoller
from hamid.plugin.inventory import InventoryDeriver, wait_for_inventory
from hamid.plugin.journal import Journal
from hamid.plugin.owners import Owners
from hamid.plugin.pods import NodePods
from hamid.plugin.publisher import InventoryPublisher, RegistrationGuard
from hamid.plugin.reconciler import Reconciler
from hamid.plugin.service import DevicePlugin
from hamid.plugin.trimmer import UsageTrimmer
from hamid.plugin.undecided import UndecidedPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from hamid.aiokit.services import Service
    from hamid.daemon.settings import Settings
    from hamid.hooks.abi.usage import UsageReport
    from hamid.hooks.lending import DeviceTerms
    from hamid.kube.port import KubePort, Resource
    from hamid.kube.watch import Sink, WatchMetrics
    from hamid.kubelet.metrics import KubeletMetrics
    from hamid.nvml.port import NvmlPort
    from hamid.plugin.metrics import PluginMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMetrics:
    """The metrics of the plugin's rooms; one set per process, also where it plays many nodes."""

    plugin: PluginMetrics
    kubelet: KubeletMetrics
    watch: WatchMetrics


@dataclass(slots=True, kw_only=True)
class PluginRole:
    """A running device plugin, as the rest of the daemon sees it."""

    plugin: DevicePlugin
    registrar: Registrar
    pod_watch: Reflector
    reconciler: Reconciler
    view: Latest[DeviceView]
    inventory: Latest[NodeInventory]
    usage: Latest[Mapping[str, UsageReport]]
    terms: Latest[Mapping[tuple[str, str], DeviceTerms]]
    amounts: AmountsDeriver
    _page_dirs: dict[str, ContainerDirs] = field(default_factory=dict, init=False)

    @property
    def journal(self) -> Journal:
        """What was granted."""
        return self.plugin.journal

    @property
    def pods_synced(self) -> Latest[bool]:
        """Whether this node's pods are known."""
        return self.pod_watch.synced

    def page_dirs(self) -> dict[str, ContainerDirs]:
        """Where the pages of each grant are; asked four times a second, so each is made once."""
        files, known = self.plugin.files, self._page_dirs
        self._page_dirs = {
            grant_id: known.get(grant_id)
            or ContainerDirs(limits=files.limits_dir(grant_id), usage=files.usage_dir(grant_id))
            for grant_id in (grant.grant_id for grant in self.journal.grants())
        }
        return self._page_dirs

    def usage_dirs(self) -> dict[str, Path]:
        """The usage directory of each grant."""
        files = self.plugin.files
        return {g.grant_id: files.usage_dir(g.grant_id) for g in self.journal.grants()}

    def books(self) -> NodeBooks:
        """What /metrics shows."""
        return NodeBooks(
            inventory=self.inventory.get(),
            view=self.view.get(),
            pods=self.plugin.pods.pods(),
            grants=self.journal.grants(),
            usage_by_grant=self.usage.get(),
            terms=self.terms.get(),
        )

    def is_registered(self) -> tuple[bool, str]:
        """Whether the kubelet has us, and why or why not."""
        registration = self.registrar.registration.get()
        return registration.is_registered, registration.reason

    def is_synced(self) -> tuple[bool, str]:
        """Whether this node's pods are known."""
        synced = self.pods_synced.get()
        return synced, "listed" if synced else "the node's pods are not listed yet"

    def pages(self) -> Mapping[str, Callable[[], Any]]:
        """What /debug shows of this role."""
        return {
            "devices": lambda: {
                "inventory": self.inventory.get(),
                "health": self.view.get().health,
            },
            "allocations": lambda: {
                "grants": self.journal.grants(),
                "pods": self.plugin.pods.pods(),
            },
            "drift": lambda: sorted(self.reconciler.known),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPorts:
    """What the role is handed: outside systems, clocks and metrics.

    Attributes:
        clock, wall_clock: monotonic seconds, and seconds since 1970.
        awake_ns: CLOCK_MONOTONIC, which stands still while the machine sleeps: by it, libraries in
            containers judge what they are told, and tell what they do.
        has_containers: containers run on the node, of which one might do harm.
        own_node: who else wants to know of changes of this node.
    """

    kube: KubePort
    nvml: NvmlPort
    metrics: RoleMetrics
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    awake_ns: Callable[[], int] = time.monotonic_ns
    has_containers: bool = True
    own_node: Sink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSources:
    """What the kubelet tells of its books, beside its calls."""

    checkpoint: CheckpointFile
    pod_resources: PodResourcesClient
    pods_api: PodsApiClient

    @classmethod
    def of(cls, settings: Settings) -> KubeletSources:
        """Those of this node; nothing is connected before it is used."""
        own = settings.plugin
        return cls(
            checkpoint=CheckpointFile(path=own.device_plugin_dir / CHECKPOINT_NAME),
            pod_resources=PodResourcesClient(
                resource_name=settings.sched.resources.count,
                socket_path=own.pod_resources_dir / KUBELET_SOCKET_NAME,
            ),
            pods_api=PodsApiClient(socket_path=own.pods_api_dir / PODS_API_SOCKET.name),
        )

    def close(self) -> None:
        """Drop the connections."""
        self.pod_resources.close()
        self.pods_api.close()


@asynccontextmanager
async def plugin_role(settings: Settings, ports: PluginPorts) -> AsyncIterator[PluginRole]:
    """Run the role for as long as the block lasts.

    Before the kubelet hears of us, the journal is read, the library is in place and the driver has
    told of its cards: what it told before a reboot would be sooner there, but may not be so any
    more. The API server is not waited for: pods that run already need the cards known
    to the kubelet, and start again by kubelet and journal alone. A pod that neither knows is listed
    when the kubelet asks for it; while that cannot be, it is refused, and told why.
    """
    thread, sources = OneThread(name="plugin-files"), KubeletSources.of(settings)
    lending = OneThread(name="lending")  # of its own: it cannot wait for disks
    try:
        role = await _assemble(settings, ports, thread, sources)
        deriver = _deriver(settings, role)
        async with running(deriver, *_first_services(settings, ports, role)):
            await wait_for_inventory(deriver)
            async with running(role.registrar, *_later_services(settings, ports, role, lending)):
                yield role
    finally:
        sources.close()
        thread.close()
        lending.close()


async def _assemble(
    settings: Settings, ports: PluginPorts, thread: OneThread, sources: KubeletSources
) -> PluginRole:
    plugin = await _device_plugin(settings, ports, thread, sources)
    own, node_name = settings.plugin, settings.identity.node_name
    resource_name = settings.sched.resources.count
    amounts = _amounts(settings, ports, plugin)
    return PluginRole(
        plugin=plugin,
        registrar=Registrar(
            handler=plugin,
            resource_name=resource_name,
            directory=own.device_plugin_dir,
            metrics=ports.metrics.kubelet,
        ),
        pod_watch=own_pod_watch(node_name, ports, sink=TwoSinks(first=plugin.pods, second=amounts)),
        reconciler=Reconciler(
            resource_name=resource_name,
            pods=plugin.pods,
            journal=plugin.journal,
            files=plugin.files,
            checkpoint=sources.checkpoint,
            pod_resources=sources.pod_resources,
            metrics=ports.metrics.plugin,
            events=NodeEvents(kube=ports.kube, node_name=node_name, clock=ports.wall_clock),
            interval_s=own.reconcile_interval_s,
        ),
        view=Latest(DeviceView()),
        inventory=plugin.undecided.inventory,
        usage=Latest({}),
        terms=Latest({}),
        amounts=amounts,
    )


def _amounts(settings: Settings, ports: PluginPorts, plugin: DevicePlugin) -> AmountsDeriver:
    """What the Node states for autoscalers, or takes back."""
    writer = AmountsWriter(
        kube=ports.kube,
        node_name=settings.identity.node_name,
        names=settings.sched.resources,
        is_on=settings.plugin.advertise_amounts,
        backoff=Backoff(max_s=30.0),
    )
    return AmountsDeriver(inventory=plugin.undecided.inventory, writer=writer)


async def _device_plugin(
    settings: Settings, ports: PluginPorts, thread: OneThread, sources: KubeletSources
) -> DevicePlugin:
    """What answers the kubelet, its journal read and the library in place."""
    own, node_name = settings.plugin, settings.identity.node_name
    resource_name = settings.sched.resources.count
    library = await install_library(settings.hooks.library, host_dir=own.state_dir)
    journal = Journal(directory=own.state_dir / "journal", thread=thread, prepared_most=32)
    await journal.load()
    pods = NodePods(node_name=node_name, names=settings.sched.resources, kube=ports.kube)
    inventory = Latest(NodeInventory(node_name=node_name, devices=()))
    return DevicePlugin(
        devices=Latest(()),
        pods=pods,
        view=AdmissionView(pod_resources=sources.pod_resources, pods_api=sources.pods_api),
        journal=journal,
        files=GrantFiles(
            directory=own.state_dir / "grants",
            cdi_dir=own.cdi_dir,
            mode=own.grant_mode,
            takes_cdi_names=False,  # until the kubelet was looked at; without names all works, too
            library=library,
            thread=thread,
            host_root=settings.nvml.host_root,
            terms=MemoryTerms(
                context_mib=own.context_memory_mib, scaling=own.device_memory_scaling
            ),
            sharing_mode=settings.hooks.sharing_mode,
            trusts_mps=settings.hooks.trust_mps,
        ),
        owners=Owners(
            resource_name=resource_name,
            checkpoint=sources.checkpoint,
            pod_resources=sources.pod_resources,
            pods=pods,
            journal=journal,
        ),
        undecided=UndecidedPolicy(
            settings=own, node_name=node_name, inventory=inventory, pods=pods, kube=ports.kube
        ),
        metrics=ports.metrics.plugin,
    )


def _first_services(
    settings: Settings, ports: PluginPorts, role: PluginRole
) -> tuple[Service, ...]:
    """What must have looked once before the kubelet hears of us."""
    poller = HealthPoller(
        nvml=ports.nvml,
        view=role.view,
        clock=ports.clock,
        interval_s=settings.plugin.health_interval_s,
        recovery_s=settings.plugin.recovery_s,
    )
    return (poller, EventListener(nvml=ports.nvml, poller=poller), role.pod_watch)


def _deriver(settings: Settings, role: PluginRole) -> InventoryDeriver:
    return InventoryDeriver(
        view=role.view,
        inventory=role.inventory,
        devices=role.plugin.devices,
        files=role.plugin.files,
        settings=settings.plugin,
    )


def _later_services(
    settings: Settings, ports: PluginPorts, role: PluginRole, lending: OneThread
) -> tuple[Service, ...]:
    publisher = InventoryPublisher(
        kube=ports.kube, nvml=ports.nvml, inventory=role.inventory, backoff=Backoff(max_s=30.0)
    )
    guard = RegistrationGuard(publisher=publisher)
    amounts = (role.amounts, OnceListed(service=role.amounts.writer, synced=role.pods_synced))
    sinks: Sink = TwoSinks(first=guard, second=role.amounts.writer)
    if ports.own_node is not None:
        sinks = TwoSinks(first=sinks, second=ports.own_node)
    watch = own_node_watch(settings.identity.node_name, ports, sink=sinks)
    monitor = UsageMonitor(
        directories=role.usage_dirs,
        usage=role.usage,
        thread=role.plugin.files.thread,
        interval_s=settings.hooks.usage_interval_s,
    )
    trimmers = (UsageTrimmer(directories=role.usage_dirs),) if ports.has_containers else ()
    lender = Lender(
        directories=role.page_dirs,
        nvml=ports.nvml,
        thread=lending,
        clock_ns=ports.awake_ns,
        interval_s=settings.hooks.lending_interval_s,
        floor_percent=settings.hooks.low_priority_floor_percent,
        weighs_memory=settings.hooks.count_observed_memory,
        terms=role.terms,
    )
    probe = KubeletProbe(
        registration=role.registrar.registration,
        view=role.plugin.view,
        kube=ports.kube,
        node_name=settings.identity.node_name,
        files=role.plugin.files,
    )
    reconciler = OnceListed(service=role.reconciler, synced=role.pods_synced)
    samplers = (LoadSampler(lender=lender), MemoryWeigher(lender=lender))
    registration = (publisher, guard, *amounts, watch)
    return (*registration, monitor, *trimmers, lender, *samplers, probe, reconciler)


def own_pod_watch(node_name: str, ports: PluginPorts, *, sink: Sink) -> Reflector:
    """The watch of the pods of this node."""
    return _own_watch(PODS, f"spec.nodeName={node_name}", "own-pod-watch", ports, sink)


def own_node_watch(node_name: str, ports: PluginPorts, *, sink: Sink) -> Reflector:
    """The watch of this node."""
    return _own_watch(NODES, f"metadata.name={node_name}", "own-node-watch", ports, sink)


def _own_watch(
    resource: Resource, field_selector: str, name: str, ports: PluginPorts, sink: Sink
) -> Reflector:
    return Reflector(
        kube=ports.kube,
        resource=resource,
        sink=sink,
        field_selector=field_selector,
        name=name,
        clock=ports.wall_clock,
        metrics=ports.metrics.watch,
        is_cached_list=True,
    )
