"""Nodes: the devices they register, and their state at one moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.device import Device, DeviceUsage, DeviceUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """The devices that a node registers, sorted by index, then UUID."""

    node_name: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAmount:
    """Processor time and main memory of a node, or what a pod asks of them."""

    cpu_milli: int = 0
    memory_mib: int = 0

    def __add__(self, other: HostAmount) -> HostAmount:
        return HostAmount(
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_mib=self.memory_mib + other.memory_mib,
        )

    def __sub__(self, other: HostAmount) -> HostAmount:
        return HostAmount(
            cpu_milli=self.cpu_milli - other.cpu_milli,
            memory_mib=self.memory_mib - other.memory_mib,
        )

    def most(self, other: HostAmount) -> HostAmount:
        """The greater of both, amount by amount."""
        return HostAmount(
            cpu_milli=max(self.cpu_milli, other.cpu_milli),
            memory_mib=max(self.memory_mib, other.memory_mib),
        )

    def covers(self, asked: HostAmount) -> bool:
        """Whether as much as is asked is there; what is not asked may even be overdrawn."""
        return (not asked.cpu_milli or asked.cpu_milli <= self.cpu_milli) and (
            not asked.memory_mib or asked.memory_mib <= self.memory_mib
        )


NO_HOST: Final = HostAmount()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """One node at one moment: its devices and what is promised on them.

    Attributes:
        usages: in the order of the inventory.
        cordoned: devices that the operator keeps free of new pods.
        links: how well each pair of devices is linked, higher is better, a row a device in the
            order of `usages`; empty where it is not known.
        host_free: what pods have not asked for yet; None where it is not known.
        host_capacity: what the host has for pods in all; None where it is not known.
    """

    node_name: str
    usages: tuple[DeviceUsage, ...]
    cordoned: frozenset[DeviceUuid] = frozenset()
    host_free: HostAmount | None = None
    host_capacity: HostAmount | None = None
    links: tuple[tuple[int, ...], ...] = ()

    def has_host_for(self, asked: HostAmount) -> bool:
        """Whether its host has as much free; one of which nothing is known has."""
        return self.host_free is None or self.host_free.covers(asked)

    def with_host_asked(self, asked: HostAmount) -> NodeSnapshot:
        """The node with so much less of its host free."""
        if self.host_free is None:
            return self
        return replace(self, host_free=self.host_free - asked)


def sorted_devices(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The devices in the order in which we write and show them."""
    return tuple(sorted(devices, key=lambda d: (d.device_index, d.device_uuid)))
