"""The devices as this node registers them: with the scheduler and with the kubelet, from one view."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import structlog

from hamid.kubelet.port import AdvertisedDevice
from hamid.model.device import WHOLE_DEVICE_PERCENT, Device, DeviceMode
from hamid.model.node import NodeInventory, sorted_devices
from hamid.model.quantities import MIB
from hamid.plugin.slots import slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.aiokit.latest import Latest
    from hamid.model.device import DeviceUuid
    from hamid.model.health import HealthReport
    from hamid.nvml.port import NvmlDevice
    from hamid.plugin.grants import GrantFiles
    from hamid.plugin.health import DeviceView
    from hamid.plugin.settings import PluginSettings

log = structlog.get_logger(__name__)


def node_inventory(view: DeviceView, *, node_name: str, settings: PluginSettings) -> NodeInventory:
    """What the node registers, given what was last seen of its devices."""
    devices = (
        device(nvml_device, health=view.health, settings=settings)
        for nvml_device in view.devices
        if nvml_device.device_uuid not in settings.excluded_uuids
        and nvml_device.device_index not in settings.excluded_indexes
        and not nvml_device.mig_enabled
    )
    return NodeInventory(node_name=node_name, devices=sorted_devices(devices))


def device(nvml_device: NvmlDevice, *, health: HealthReport, settings: PluginSettings) -> Device:
    """The device as it is registered; memory and cores after scaling."""
    uuid = nvml_device.device_uuid
    return Device(
        device_uuid=uuid,
        device_index=nvml_device.device_index,
        model=model_name(nvml_device.model),
        memory_mib=_scaled(nvml_device.memory_bytes // MIB, settings.device_memory_scaling),
        core_percent=_scaled(WHOLE_DEVICE_PERCENT, settings.device_core_scaling),
        slot_count=settings.device_split_count,
        numa_node=nvml_device.numa_node,
        mode=DeviceMode.HAMI_CORE,
        is_healthy=uuid in health and health[uuid].is_healthy,
    )


def _scaled(amount: int, factor: float) -> int:
    """The amount times the factor as it is written in decimal, rounded down: 100 × 1.15 = 115."""
    return int(amount * Decimal(str(factor)))


def model_name(product_name: str) -> str:
    """The product name as HAMi writes it: `Tesla T4` is `NVIDIA-Tesla T4`."""
    return product_name if product_name.startswith("NVIDIA") else f"NVIDIA-{product_name}"


def advertised(inventory: NodeInventory, *, report_numa: bool) -> tuple[AdvertisedDevice, ...]:
    """The slots as the kubelet is told of them."""
    return tuple(
        AdvertisedDevice(
            slot_id=slot.slot_id,
            is_healthy=slot.is_healthy,
            numa_nodes=(slot.numa_node,) if report_numa and slot.numa_node is not None else (),
        )
        for slot in slots(inventory.devices)
    )


def device_nodes(view: DeviceView) -> Mapping[DeviceUuid, str]:
    """The device node of each card."""
    return {d.device_uuid: f"/dev/nvidia{d.minor}" for d in view.devices}


@dataclass(slots=True, kw_only=True)
class InventoryDeriver:
    """Derives from each view the inventory and the kubelet's list, so that both agree; a service."""

    view: Latest[DeviceView]
    inventory: Latest[NodeInventory]
    devices: Latest[tuple[AdvertisedDevice, ...]]
    files: GrantFiles
    settings: PluginSettings
    name: str = "node-inventory"
    _unshared: frozenset[DeviceUuid] = frozenset()

    async def run(self) -> None:
        """Follow the view until cancelled."""
        async for _ in self.view.changes():
            self.step()

    def step(self) -> None:
        """Derive once."""
        view = self.view.get()
        self._say_unshared(view)
        node_name = self.inventory.get().node_name
        inventory = node_inventory(view, node_name=node_name, settings=self.settings)
        self.files.node_by_uuid = device_nodes(view)
        self.inventory.publish(inventory)
        self.devices.publish(advertised(inventory, report_numa=self.settings.report_numa))

    def _say_unshared(self, view: DeviceView) -> None:
        """Say once of each card in MIG mode that its memory cannot be shared by our library."""
        unshared = frozenset(d.device_uuid for d in view.devices if d.mig_enabled)
        for uuid in sorted(unshared - self._unshared):
            log.warning(
                "device skipped",
                device_uuid=uuid,
                reason="it is in MIG mode",
                hint="turn MIG off (nvidia-smi -mig 0) to have the card shared",
            )
        self._unshared = unshared


async def wait_for_inventory(deriver: InventoryDeriver) -> NodeInventory:
    """The inventory, as soon as it is derived from what the driver says; it may be empty then."""
    view = await deriver.view.wait_for(lambda view: view.is_known)
    node_name = deriver.inventory.get().node_name
    if node_inventory(view, node_name=node_name, settings=deriver.settings).devices:
        await deriver.devices.wait_for(bool)
    return deriver.inventory.get()
