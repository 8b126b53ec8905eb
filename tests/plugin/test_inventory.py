import asyncio
from dataclasses import replace

import pytest

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.kubelet.port import AdvertisedDevice
from hamid.model.device import DeviceMode
from hamid.model.health import DeviceHealth
from hamid.model.node import NodeInventory
from hamid.plugin.health import DeviceView
from hamid.plugin.inventory import (
    InventoryDeriver,
    advertised,
    device,
    device_nodes,
    model_name,
    node_inventory,
    wait_for_inventory,
)
from hamid.plugin.settings import PluginSettings
from tests.builders import make_device, make_inventory, uuid
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
