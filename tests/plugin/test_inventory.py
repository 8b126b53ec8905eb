import asyncio
from dataclasses import replace

import pytest

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.codec.node_annotation import (
    decode_link_scores,
    decode_node_inventory,
    encode_node_inventory,
)
from hamid.kube.errors import Unavailable
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import NODES, PatchKind
from hamid.kubelet.port import AdvertisedDevice
from hamid.model.device import DeviceMode
from hamid.model.health import DeviceHealth
from hamid.model.names import NODE_REGISTER, NODE_SCORE
from hamid.model.node import NodeInventory
from hamid.nvml.errors import DriverUnavailable
from hamid.nvml.fake import FakeNvml
from hamid.plugin.health import DeviceView
from hamid.plugin.inventory import (
    InventoryDeriver,
    InventoryPublisher,
    advertised,
    device,
    device_nodes,
    model_name,
    node_inventory,
    wait_for_inventory,
)
from hamid.plugin.settings import PluginSettings
from tests.builders import make_device, make_devices, make_inventory, uuid
from tests.plugin.values import nvml_device

SETTINGS = PluginSettings()
HEALTHY = DeviceHealth(is_healthy=True, reason="", since_s=0)
SICK = DeviceHealth(is_healthy=False, reason="XID 79", since_s=0, last_fault_s=0)


def view_of(*devices, **health):
    return DeviceView(
        devices=devices, health={d.device_uuid: HEALTHY for d in devices} | {**health}
    )


def registered(*devices, **settings):
    return node_inventory(
        view_of(*devices), node_name="node-1", settings=replace(SETTINGS, **settings)
    ).devices


def test_a_card_is_registered_with_what_may_be_promised_of_it():
    (found,) = registered(nvml_device(1, numa_node=1))

    assert found == make_device(
        model="NVIDIA-Tesla T4",
        memory_mib=15_360,
        core_percent=100,
        slot_count=10,
        numa_node=1,
        mode=DeviceMode.HAMI_CORE,
    )


@pytest.mark.parametrize(
    ("memory_scaling", "core_scaling", "memory_mib", "core_percent"),
    [(1.5, 2.0, 23_040, 200), (0.29, 1.15, 4_454, 115), (0.3333, 0.29, 5_119, 29)],
)
def test_scaling_is_exact_and_rounds_down(memory_scaling, core_scaling, memory_mib, core_percent):
    (found,) = registered(
        nvml_device(), device_memory_scaling=memory_scaling, device_core_scaling=core_scaling
    )

    assert (found.memory_mib, found.core_percent) == (memory_mib, core_percent)


@pytest.mark.parametrize(
    ("product", "model"),
    [("Tesla T4", "NVIDIA-Tesla T4"), ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")],
)
def test_models_are_written_as_hami_writes_them(product, model):
    assert model_name(product) == model


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"excluded_uuids": (uuid(1),)}, [uuid(2)]),
        ({"excluded_indexes": (1,)}, [uuid(1)]),
        ({}, [uuid(1), uuid(2)]),
    ],
)
def test_excluded_cards_are_not_registered(settings, left):
    found = registered(nvml_device(2), nvml_device(1), **settings)

    assert [d.device_uuid for d in found] == left


def test_a_card_in_mig_mode_is_not_registered():
    found = registered(nvml_device(1, mig_enabled=True), nvml_device(2))

    assert [d.device_uuid for d in found] == [uuid(2)]


@pytest.mark.parametrize(
    ("health", "is_healthy"), [({uuid(1): HEALTHY}, True), ({uuid(1): SICK}, False), ({}, False)]
)
def test_a_card_is_as_healthy_as_it_was_seen(health, is_healthy):
    assert device(nvml_device(), health=health, settings=SETTINGS).is_healthy is is_healthy


@pytest.mark.parametrize(("report_numa", "numa_nodes"), [(True, (1,)), (False, ())])
def test_the_kubelet_is_told_of_numa_nodes_where_that_is_wanted(report_numa, numa_nodes):
    inventory = make_inventory("node-1", make_device(numa_node=1, slot_count=1))

    assert advertised(inventory, report_numa=report_numa) == (
        AdvertisedDevice(slot_id=f"{uuid(1)}-0", is_healthy=True, numa_nodes=numa_nodes),
    )


def test_a_card_without_a_numa_node_tells_of_none():
    (slot,) = advertised(make_inventory("node-1", make_device(slot_count=1)), report_numa=True)

    assert slot.numa_nodes == ()


def test_device_nodes_are_named_after_the_minor_number():
    assert device_nodes(view_of(nvml_device(1, minor=5))) == {uuid(1): "/dev/nvidia5"}


class FakeFiles:
    """The part of `GrantFiles` that is told of device nodes."""

    node_by_uuid = None


class Derived:
    def __init__(self):
        self.deriver = InventoryDeriver(
            view=Latest(DeviceView()),
            inventory=Latest(NodeInventory(node_name="node-1", devices=())),
            devices=Latest(()),
            files=FakeFiles(),
            settings=SETTINGS,
        )

    def see(self, *devices, **health):
        self.deriver.view.publish(view_of(*devices, **health))
        self.deriver.step()


def test_scheduler_and_kubelet_are_told_the_same():
    derived = Derived()

    derived.see(nvml_device(1), nvml_device(2), **{uuid(1): SICK})

    inventory = derived.deriver.inventory.get()
    assert [(d.device_uuid, d.is_healthy) for d in inventory.devices] == [
        (uuid(1), False),
        (uuid(2), True),
    ]
    told = {
        slot.slot_id.rpartition("-")[0]: slot.is_healthy for slot in derived.deriver.devices.get()
    }
    assert told == {uuid(1): False, uuid(2): True}
    assert derived.deriver.files.node_by_uuid == {uuid(1): "/dev/nvidia0", uuid(2): "/dev/nvidia1"}


def test_a_card_that_only_got_busier_changes_nothing():
    derived = Derived()
    derived.see(nvml_device())
    version = derived.deriver.inventory.version

    derived.deriver.view.publish(replace(derived.deriver.view.get(), samples=()))
    derived.deriver.step()

    assert derived.deriver.inventory.version == version


def test_a_card_in_mig_mode_is_spoken_of_once(logs):
    derived = Derived()
    for _ in range(2):
        derived.see(nvml_device(1, mig_enabled=True), nvml_device(2))
        derived.see(nvml_device(1, mig_enabled=True), nvml_device(2), **{uuid(2): SICK})

    assert [(line["event"], line["device_uuid"]) for line in logs] == [("device skipped", uuid(1))]


async def test_the_deriver_follows_the_view():
    derived = Derived()
    async with running(derived.deriver):
        derived.deriver.view.publish(view_of(nvml_device()))
        found = await derived.deriver.inventory.wait_for(lambda inventory: inventory.devices)

    assert len(found.devices) == 1


async def test_the_inventory_is_waited_for_until_the_driver_has_answered():
    derived = Derived()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait_for_inventory(derived.deriver))
        await asyncio.sleep(0)
        derived.see(nvml_device())
        await asyncio.sleep(0)
        assert not waiting.done()
        derived.deriver.view.publish(replace(view_of(nvml_device()), is_known=True))
        derived.deriver.step()

    assert len(waiting.result().devices) == 1


async def test_a_driver_that_has_answered_without_a_card_to_share_is_not_waited_for():
    derived = Derived()
    view = replace(view_of(nvml_device(1, mig_enabled=True)), is_known=True)
    derived.deriver.view.publish(view)

    assert (await wait_for_inventory(derived.deriver)).devices == ()


class World:
    """A node whose registration is kept by a publisher."""

    def __init__(self, kube):
        self.kube = kube
        self.nvml = FakeNvml(
            [nvml_device(1), nvml_device(2)],
            link_scores={uuid(1): {uuid(2): 100}, uuid(2): {uuid(1): 100}},
        )
        self.inventory = Latest(NodeInventory(node_name="node-1", devices=()))
        self.publisher = InventoryPublisher(
            kube=kube,
            nvml=self.nvml,
            inventory=self.inventory,
            backoff=Backoff(first_s=1, max_s=30, jitter=0),
        )

    async def annotations(self):
        node = await self.kube.get(NODES, "node-1")
        return node["metadata"].get("annotations") or {}

    async def registered(self):
        return decode_node_inventory((await self.annotations())[NODE_REGISTER], node_name="node-1")

    def writes(self, **which):
        return self.kube.requests.count(verb="patch", resource="nodes", **which)

    async def overwrite(self, text):
        patch = {"metadata": {"annotations": {NODE_REGISTER: text}}}
        await self.kube.patch(NODES, "node-1", patch, kind=PatchKind.MERGE)
        self.kube.requests.clear()

    def change(self, **health):
        self.inventory.publish(make_inventory("node-1", *make_devices(2, **health)))


@pytest.fixture
async def world():
    kube = FakeKube()
    await kube.create(NODES, {"metadata": {"name": "node-1"}})
    return World(kube)


async def test_the_inventory_and_the_links_between_cards_are_written(world):
    world.change()

    await world.publisher.step()

    assert await world.registered() == world.inventory.get()
    scores = decode_link_scores((await world.annotations())[NODE_SCORE])
    assert scores[uuid(1)] == {uuid(2): 100}


async def test_what_has_not_changed_is_not_written_again(world):
    world.change()

    for _ in range(3):
        await world.publisher.step()

    assert world.writes() == 1


async def test_changed_health_is_written(world):
    world.change()
    await world.publisher.step()
    world.change(is_healthy=False)

    await world.publisher.step()

    assert not any(d.is_healthy for d in (await world.registered()).devices)


async def test_without_link_scores_the_inventory_is_written_all_the_same(world):
    world.change()
    world.nvml.fail_driver(DriverUnavailable("no driver", hint="load it"))

    await world.publisher.step()

    assert NODE_SCORE not in await world.annotations()
    assert await world.registered() == world.inventory.get()


async def test_a_write_that_fails_is_no_write(world):
    world.change()
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=500))

    with pytest.raises(Unavailable):
        await world.publisher.step()
    await world.publisher.step()

    assert await world.registered() == world.inventory.get()


@pytest.mark.parametrize("others", ["[]", "gone"])
async def test_what_somebody_else_has_changed_is_written_again(world, others, assert_logged):
    world.change()
    await world.publisher.step()
    await world.overwrite(None if others == "gone" else others)

    await world.publisher.look()
    await world.publisher.step()

    assert await world.registered() == world.inventory.get()
    assert_logged("registration changed by somebody else")


async def test_a_look_at_what_is_right_writes_nothing(world):
    world.change()
    await world.publisher.step()
    world.kube.requests.clear()

    await world.publisher.look()
    await world.publisher.step()

    assert world.writes() == 0


@pytest.mark.looptime
async def test_a_node_that_shares_no_card_takes_back_what_it_registered_before(world):
    await world.overwrite(encode_node_inventory(make_inventory("node-1")))
    async with running(world.publisher):
        await asyncio.sleep(1)

    assert (await world.registered()).devices == ()


@pytest.mark.looptime
async def test_cards_that_are_gone_are_registered_as_gone(world):
    world.change()
    async with running(world.publisher):
        await asyncio.sleep(1)
        world.inventory.publish(NodeInventory(node_name="node-1", devices=()))
        await asyncio.sleep(1)

    assert (await world.registered()).devices == ()


@pytest.mark.looptime
async def test_an_outage_is_outlasted_with_growing_pauses_and_said_once(world, logs):
    world.change()
    for nth, code in enumerate((500, 409, 429, 503)):
        world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=code, after=nth))
    async with running(world.publisher):
        await asyncio.sleep(1 + 2 + 4 + 7.5)
        assert world.writes() == 4
        await asyncio.sleep(1)

    assert await world.registered() == world.inventory.get()
    assert world.writes(code=200) == 1
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings == ["registration delayed"]
    assert world.publisher.backoff.failures == 0


@pytest.mark.looptime
async def test_a_server_that_names_a_time_is_given_it(world):
    world.change()
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=429, retry_after_s=20))
    async with running(world.publisher):
        await asyncio.sleep(19)
        assert world.writes() == 1
        await asyncio.sleep(2)

    assert world.writes(code=200) == 1


@pytest.mark.looptime
async def test_after_an_outage_the_newest_inventory_is_written(world):
    world.kube.faults.add(Fault(kind=FaultKind.DROP, verb="patch", times=5))
    world.change()
    async with running(world.publisher):
        await asyncio.sleep(5)
        world.change(is_healthy=False)
        await asyncio.sleep(60)

    assert await world.registered() == world.inventory.get()
    assert world.writes(code=200) == 1


@pytest.mark.looptime
async def test_a_node_made_anew_is_registered_within_minutes(world):
    world.change()
    async with running(world.publisher):
        await asyncio.sleep(1)
        await world.kube.delete(NODES, "node-1")
        await world.kube.create(NODES, {"metadata": {"name": "node-1"}})
        world.kube.requests.clear()
        await asyncio.sleep(world.publisher.recheck_s * 3)

    assert await world.registered() == world.inventory.get()
    assert world.writes() == 1
    assert world.kube.requests.count(verb="get") <= 5
