from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry

from hamid.daemon.plugin_role import PluginPorts, RoleMetrics
from hamid.daemon.settings import HookSettings, Identity, Settings
from hamid.daemon.simulate.ground import short_directory
from hamid.daemon.simulate.node import simulated_node
from hamid.daemon.simulate.nodes import SimulatedCards, SimulatedNode
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES
from hamid.kube.watch import WatchMetrics
from hamid.kubelet.metrics import KubeletMetrics
from hamid.nvml.fake import FakeNvml
from hamid.plugin.metrics import PluginMetrics

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tmp_path):
    library = tmp_path / "libhamid.so"
    library.write_bytes(b"\x7fELF and nothing more")
    return Settings(identity=Identity(node_name="simulation"), hooks=HookSettings(library=library))


def ports_of(node):
    registry = CollectorRegistry()
    return PluginPorts(
        kube=FakeKube(),
        nvml=FakeNvml.of_cards(node.simulated_cards()),
        metrics=RoleMetrics(
            plugin=PluginMetrics.create(registry),
            kubelet=KubeletMetrics(registry),
            watch=WatchMetrics(registry),
        ),
        clock=time.monotonic,
        wall_clock=lambda: 1_700_000_000.0,
    )


async def test_a_node_begins_with_its_cards_registered(settings):
    node = SimulatedNode(name="n", cards=(SimulatedCards(model="T4", count=2),))

    with short_directory() as root:
        async with simulated_node(node, settings, ports_of(node), root=root / "n0") as there:
            registered = there.plugin.is_registered()[0]
            capacity = there.kubelet.capacities.get()["nvidia.com/gpu"].allocatable

    assert (registered, capacity) == (True, 20)
    assert [(card.index, card.model) for card in there.cards] == [(0, "Tesla T4"), (1, "Tesla T4")]


async def test_a_node_without_cards_has_no_plugin(settings):
    node = SimulatedNode(name="n")
    ports = ports_of(node)

    with short_directory() as root:
        async with simulated_node(node, settings, ports, root=root / "n0") as there:
            stored = await ports.kube.get(NODES, "n")

    assert there.plugin is None
    assert "nvidia.com/gpu" not in stored["status"]["allocatable"]
