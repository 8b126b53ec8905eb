"""Nodes: the devices they register, and their state at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.device import Device, DeviceUsage, DeviceUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """The devices that a node registers, sorted by index, then UUID."""

    node_name: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """One node at one moment: its devices and what is promised on them.

    Attributes:
        usages: in the order of the inventory.
        cordoned: devices that the operator keeps free of new pods.
    """

    node_name: str
    usages: tuple[DeviceUsage, ...]
    cordoned: frozenset[DeviceUuid] = frozenset()


def sorted_devices(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The devices in the order in which we write and show them."""
    return tuple(sorted(devices, key=lambda d: (d.device_index, d.device_uuid)))
