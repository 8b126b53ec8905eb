"""Slots: the ids under which a card is advertised, and which of them to prefer. Pure.

A slot id is `<device UUID>-<n>`. It says which card the kubelet believes a container to be on;
it never says which container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.model.device import DeviceUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hamid.model.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place on a device."""

    slot_id: str
    device_uuid: DeviceUuid
    is_healthy: bool
    numa_node: int | None


def slots(devices: Iterable[Device]) -> tuple[Slot, ...]:
    """All slots of the devices, in the order of the devices."""
    return tuple(
        Slot(
            slot_id=f"{device.device_uuid}-{n}",
            device_uuid=device.device_uuid,
            is_healthy=device.is_healthy,
            numa_node=device.numa_node,
        )
        for device in devices
        for n in range(device.slot_count)
    )


def slot_device(slot_id: str) -> DeviceUuid:
    """The device that the slot id names."""
    return DeviceUuid(slot_id.rpartition("-")[0])


def slot_devices(slot_ids: Iterable[str]) -> frozenset[DeviceUuid]:
    """The devices that the slot ids name."""
    return frozenset(slot_device(slot_id) for slot_id in slot_ids)


def preferred_slots(
    wanted: Sequence[DeviceUuid],
    *,
    available: Sequence[str],
    must_include: Sequence[str],
) -> tuple[str, ...]:
    """One available slot per wanted device, those that must be included first.

    Devices of slots that must be included count as served. Where a wanted device has no slot
    left, its place stays empty: the kubelet fills it, and the grant names the right card anyway.
    """
    chosen = list(must_include)
    missing = list(wanted)
    for slot_id in must_include:
        if slot_device(slot_id) in missing:
            missing.remove(slot_device(slot_id))
    room = len(wanted) - len(chosen)
    free: dict[DeviceUuid, str] = {}
    for slot_id in sorted(available, key=_slot_order):
        if slot_id not in must_include:
            free.setdefault(slot_device(slot_id), slot_id)
    chosen += [free[uuid] for uuid in missing if uuid in free][: max(room, 0)]
    return tuple(chosen)


def _slot_order(slot_id: str) -> tuple[str, int, str]:
    uuid, _, number = slot_id.rpartition("-")
    return (uuid, int(number) if number.isdecimal() else 0, slot_id)
