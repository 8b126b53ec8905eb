"""The device plugin role put together, on a fake kubelet over real sockets, with a fake driver."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.latest import Latest
from hamid.aiokit.ticker import every
from hamid.codec.allocation_record import encode_allocation
from hamid.codec.node_annotation import decode_node_inventory
from hamid.daemon.plugin_role import PluginPorts, RoleMetrics, plugin_role
from hamid.daemon.settings import HookSettings, Identity, NvmlSettings, Settings
from hamid.hooks.abi.contract import LIMITS_DIR, LIVE_PAGE_NAME, USAGE_PAGE_NAME
from hamid.hooks.abi.live import decode_live_page
from hamid.hooks.abi.usage import USAGE_PAGE_BYTES
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.kube.watch import WatchMetrics
from hamid.kubelet.fake import FakeContainer, FakeFeatures, FakeKubelet, FakePod, Phase
from hamid.kubelet.metrics import KubeletMetrics
from hamid.model.names import NODE_REGISTER, POD_ALLOCATION
from hamid.model.quantities import MIB
from hamid.nvml.fake import FakeNvml
from hamid.nvml.profiles import simulated_cards
from hamid.plugin.metrics import PluginMetrics
from hamid.plugin.settings import GrantMode, PluginSettings
from tests.builders import (
    container_object,
    make_allocation,
    make_container_allocation,
    make_share,
    pod_object,
)

NODE = "node-1"
RESOURCE = "nvidia.com/gpu"
SLOTS = 20
SLEPT_S = 1e6
"""For so long the machine was asleep since it was started."""
CARDS = simulated_cards([("T4", 2)], node_name=NODE)


@dataclass(kw_only=True)
class World:
    """The node, and how to run the role on it: more than once, as restarts do."""

    settings: Settings
    kube: FakeKube
    kubelet: FakeKubelet
    nvml: FakeNvml

    def role(self):
        registry = CollectorRegistry()
        metrics = RoleMetrics(
            plugin=PluginMetrics.create(registry),
            kubelet=KubeletMetrics(registry),
            watch=WatchMetrics(registry),
        )
        ports = PluginPorts(
            kube=self.kube,
            nvml=self.nvml,
            metrics=metrics,
            clock=lambda: time.monotonic() + SLEPT_S,
            wall_clock=lambda: 1_700_000_000.0,
        )
        return plugin_role(self.settings, ports)

    @asynccontextmanager
    async def registered(self):
        async with self.role() as role:
            await self.kubelet.wait_for_allocatable(RESOURCE, SLOTS)
            yield role

    async def bind(self, name="p", *, core_percent=0):
        """A pod bound to the node, with 1000 MiB of the first card."""
        uuid = CARDS[0].device.device_uuid
        share = make_share(device_uuid=uuid, memory_mib=1_000, core_percent=core_percent)
        pod = pod_object(container_object("train", {"gpu": 1}), name=name)
        del pod["metadata"]["uid"]
        uid = (await self.kube.create(PODS, pod))["metadata"]["uid"]
        decided = make_allocation(
            make_container_allocation(share, container_name="train"), pod_uid=uid
        )
        await self.kube.bind(
            namespace="default",
            name=name,
            uid=uid,
            node_name=NODE,
            annotations={POD_ALLOCATION: encode_allocation(decided)},
        )
        return FakePod(name=name, uid=uid, containers=(FakeContainer(name="train", count=1),))

    def cut_off(self):
        self.kube.faults.add(Fault(kind=FaultKind.DROP, times=None))


@pytest.fixture
async def world(short_path):
    library = short_path / "libhamid.so"
    library.write_bytes(b"\x7fELF")
    kube = FakeKube()
    await kube.create(NODES, {"metadata": {"name": NODE}})
    async with FakeKubelet(short_path / "kubelet") as kubelet:
        settings = Settings(
            identity=Identity(node_name=NODE),
            hooks=HookSettings(library=library),
            nvml=NvmlSettings(host_root=short_path),
            plugin=PluginSettings(
                state_dir=short_path / "state",
                cdi_dir=short_path / "cdi",
                device_plugin_dir=kubelet.device_plugin_directory,
                pod_resources_dir=kubelet.pod_resources_socket.parent,
                pods_api_dir=kubelet.pods_api_socket.parent,
                reconcile_interval_s=0.01,
            ),
        )
        yield World(settings=settings, kube=kube, kubelet=kubelet, nvml=FakeNvml.of_cards(CARDS))


async def test_a_node_registers_its_cards_with_kubelet_and_scheduler(world):
    async with world.registered() as role:
        await role.registrar.registration.wait_for(lambda now: now.is_registered)
        await role.pods_synced.wait_for(bool)
        async for event in world.kube.watch(NODES, resource_version="0"):
            if NODE_REGISTER in (event.object["metadata"].get("annotations") or {}):
                break

        inventory = decode_node_inventory(
            event.object["metadata"]["annotations"][NODE_REGISTER], node_name=NODE
        )
        assert len(inventory.devices) == 2
        assert role.is_registered()[0]
        assert role.is_synced() == (True, "listed")


async def test_a_node_states_the_sums_of_its_cards_where_it_is_to(world):
    advertising = replace(world.settings.plugin, advertise_amounts=True)
    world.settings = replace(world.settings, plugin=advertising)
    async with world.registered():
        async for event in world.kube.watch(NODES, resource_version="0"):
            capacity = (event.object.get("status") or {}).get("capacity") or {}
            if "nvidia.com/gpumem" in capacity:
                break

    assert capacity["nvidia.com/gpucores"] == "200"
    assert int(capacity["nvidia.com/gpumem"]) == 2 * CARDS[0].device.memory_bytes // MIB


async def test_a_pod_runs_and_is_on_the_books_that_metrics_and_pages_show(world):
    async with world.registered() as role:
        status = await world.kubelet.run_pod(await world.bind())

        (grant,) = role.journal.grants()
        pages = {name: page() for name, page in role.pages().items()}
        assert status.phase is Phase.RUNNING
        assert grant.pod_name == "p"
        assert role.books().grants == (grant,)
        assert role.usage_dirs() == {grant.grant_id: role.plugin.files.usage_dir(grant.grant_id)}
        assert pages["allocations"]["grants"] == (grant,)
        assert len(pages["devices"]["inventory"].devices) == 2


@pytest.mark.parametrize(
    ("version", "is_by_name"),
    [
        pytest.param("v1.28.9-gke.1", False, id="off unless a gate is set"),
        pytest.param("v1.29.0", True, id="on"),
    ],
)
async def test_by_cdi_containers_have_their_limits_also_where_the_kubelet_drops_its_names(
    world, version, is_by_name
):
    by_cdi = replace(world.settings.plugin, grant_mode=GrantMode.CDI)
    world.settings = replace(world.settings, plugin=by_cdi)
    world.kubelet.features = FakeFeatures(takes_cdi_devices=is_by_name)
    status = {"status": {"nodeInfo": {"kubeletVersion": version}}}
    await world.kube.patch(NODES, NODE, status, kind=PatchKind.MERGE, subresource="status")

    async with world.registered() as role:
        async with asyncio.timeout(30):
            async for _ in every(0.01):
                if role.plugin.files.can_mend is is_by_name:
                    break
        pod = await world.bind()
        await world.kubelet.run_pod(pod)
        (grant,) = role.journal.grants()
        given = world.kubelet.grant(pod.uid, "train")

    (spec,) = world.settings.plugin.cdi_dir.iterdir()
    assert bool(given.cdi_devices) is is_by_name
    entered = spec.read_text() if is_by_name else repr(given)
    assert CARDS[0].device.device_uuid in entered
    assert LIMITS_DIR in entered
    assert str(role.plugin.files.limits_dir(grant.grant_id)) in entered


@pytest.mark.slow  # it waits for a look that is taken once a second
async def test_a_page_that_its_container_makes_longer_is_cut(world, logs):
    async with world.registered() as role:
        await world.kubelet.run_pod(await world.bind())
        (directory,) = role.usage_dirs().values()
        page = directory / USAGE_PAGE_NAME
        os.truncate(page, 1 << 30)

        async with asyncio.timeout(30):
            async for _ in every(0.01):
                if any(line["event"] == "usage page cut" for line in logs):
                    break

        assert page.stat().st_size == USAGE_PAGE_BYTES


async def test_libraries_are_told_the_time_by_the_clock_that_they_read(world):
    async with world.registered() as role:
        await world.kubelet.run_pod(await world.bind(core_percent=30))
        (grant,) = role.journal.grants()
        page = role.plugin.files.limits_dir(grant.grant_id) / LIVE_PAGE_NAME

        async with asyncio.timeout(30):
            async for _ in every(0.01):
                live = decode_live_page(page.read_bytes()) if page.exists() else None
                if live is not None and live.heartbeat_ns:
                    break

        assert 0 <= time.monotonic_ns() - live.heartbeat_ns < SLEPT_S * 1e9


async def test_cards_are_registered_though_the_api_server_is_away(world):
    world.cut_off()

    async with world.registered() as role:
        assert role.is_synced() == (False, "the node's pods are not listed yet")


async def test_nothing_is_freed_before_the_pods_are_known(world):
    async with world.registered() as role:
        await world.kubelet.run_pod(await world.bind())
        (grant,) = role.journal.grants()
    world.kubelet.checkpoint_path.unlink()  # else the kubelet's word would keep the grant
    world.cut_off()

    async with world.registered() as role:
        reconciler: Latest[int] = Latest(0)
        role.reconciler.checkpoint = Counting(role.reconciler.checkpoint, reconciler)
        world.kube.faults.clear()
        await role.pods_synced.wait_for(bool)
        await reconciler.wait_for(lambda looks: looks > 5)

        assert role.journal.grants() == (grant,)
        assert role.plugin.files.limits_dir(grant.grant_id).exists()


class Counting:
    """A checkpoint that counts how often it was read."""

    def __init__(self, checkpoint, looks):
        self.checkpoint, self.looks = checkpoint, looks

    async def read(self):
        self.looks.publish(self.looks.get() + 1)
        return await self.checkpoint.read()


async def test_the_role_ends_with_its_socket_removed(world):
    async with world.registered():
        assert list(world.kubelet.device_plugin_directory.glob("hamid-*.sock"))

    assert not list(world.kubelet.device_plugin_directory.glob("hamid-*.sock"))


async def test_what_the_role_is_made_of_is_closed_when_it_cannot_begin(world):
    world.settings.hooks.library.unlink()
    before = asyncio.all_tasks()

    with pytest.raises(Exception, match=r"libhamid\.so"):
        async with world.role():
            pass

    assert asyncio.all_tasks() == before
