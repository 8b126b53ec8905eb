"""One simulated node: a fake kubelet and a fake driver, and between them the real device plugin role."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hamid.aiokit.services import running
from hamid.daemon.plugin_role import plugin_role
from hamid.daemon.settings import Identity
from hamid.daemon.simulate.kubelet import NodeStatusWriter, SimulatedKubelet, node_object
from hamid.kube.port import NODES, PODS
from hamid.kube.watch import Reflector
from hamid.kubelet.fake import FakeKubelet
from hamid.model.quantities import MIB
from hamid.plugin.settings import PluginSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from hamid.daemon.plugin_role import PluginPorts, PluginRole
    from hamid.daemon.settings import Settings
    from hamid.daemon.simulate.nodes import SimulatedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card, as a person thinks of it."""

    uuid: str
    index: int
    model: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInSimulation:
    """A running node; `plugin` is None where there are no cards."""

    name: str
    cards: Sequence[Card]
    kubelet: FakeKubelet
    plugin: PluginRole | None


@asynccontextmanager
async def simulated_node(
    node: SimulatedNode, settings: Settings, ports: PluginPorts, *, root: Path
) -> AsyncIterator[NodeInSimulation]:
    """Run the node for as long as the block lasts; it begins when its cards are allocatable.

    The settings are those of the whole simulation; client and driver are the node's own. The path of
    `root` must be short: unix sockets live there.
    """
    resource_name = settings.sched.resources.count
    cards = node.simulated_cards()
    await ports.kube.create(NODES, node_object(node))
    async with AsyncExitStack() as stack:
        kubelet = await stack.enter_async_context(FakeKubelet(root))
        plugin = None
        if cards:
            settings = _node_settings(settings, node.name, root)
            plugin = await stack.enter_async_context(plugin_role(settings, ports))
            slots = len(cards) * settings.plugin.device_split_count
            await kubelet.wait_for_allocatable(resource_name, slots)
        simulated = SimulatedKubelet(
            node_name=node.name, resource_name=resource_name, kube=ports.kube, kubelet=kubelet
        )
        watch = Reflector(
            kube=ports.kube,
            resource=PODS,
            sink=simulated,
            name=f"kubelet-pod-watch-{node.name}",
            field_selector=f"spec.nodeName={node.name}",
            clock=ports.wall_clock,
            metrics=ports.metrics.watch,
        )
        status = NodeStatusWriter(node_name=node.name, kube=ports.kube, kubelet=kubelet)
        await stack.enter_async_context(running(simulated, status, watch))
        yield NodeInSimulation(
            name=node.name,
            cards=tuple(
                Card(
                    uuid=card.device.device_uuid,
                    index=card.device.device_index,
                    model=card.device.model,
                    memory_mib=card.device.memory_bytes // MIB,
                )
                for card in cards
            ),
            kubelet=kubelet,
            plugin=plugin,
        )


def _node_settings(settings: Settings, node_name: str, root: Path) -> Settings:
    plugin = PluginSettings(
        state_dir=root / "state",
        device_plugin_dir=root / "device-plugins",
        pod_resources_dir=root / "pod-resources",
        pods_api_dir=root / "pods-api",
        cdi_dir=root / "cdi",
        # What a deleted pod held should leave /metrics while somebody looks on.
        reconcile_interval_s=2.0,
    )
    return replace(settings, identity=Identity(node_name=node_name), plugin=plugin)
