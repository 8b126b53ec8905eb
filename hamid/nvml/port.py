"""What the rest of hamid sees of the driver: plain values, and the protocol that gives them.

What every implementation keeps to, and the contract suite checks:

1. A device once listed stays listed, with the facts last read, until the port is closed. Whether it
   can be used is what samples say, not whether it is there.
2. There is one sample for each listed device, in the order of the list. A device that fails has a
   sample with a fault, and its siblings have theirs.
3. What a device does not have is None, and no fault.
4. Only a failure of the driver as a whole raises: `DriverUnavailable`, or `DriverStuck` when a call
   outlives its deadline.
5. An event is delivered once. The loss of a device is an event too, once per loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.model.device import DeviceUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One MIG instance of a card; `profile` is NVIDIA's name for its size, such as `1g.10gb`."""

    device_uuid: DeviceUuid
    profile: str
    memory_bytes: int
    gpu_instance_id: int
    compute_instance_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """One card, as the driver describes it.

    Attributes:
        device_index: the driver's ordinal of now; for people, never a key.
        minor: N of `/dev/nvidiaN`.
        model: the product name, such as `NVIDIA A100-SXM4-80GB`.
        pci_bus_id: as in sysfs, such as `0000:17:00.0`.
        numa_node: the node whose memory is near the card; None where there is none.
    """

    device_uuid: DeviceUuid
    device_index: int
    minor: int
    model: str
    memory_bytes: int
    pci_bus_id: str
    numa_node: int | None = None
    mig_enabled: bool = False
    mig_instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """What one process holds of a card; its pid is the host's. The ids are None off MIG."""

    pid: int
    used_bytes: int | None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLoad:
    """How busy one process kept a card, as the driver samples it; its pid is the host's."""

    device_uuid: DeviceUuid
    pid: int
    gpu_percent: float
    """Of the time since the last question, of what the driver still remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFault:
    """Why a device cannot be sampled; `is_lost` when it has fallen off the bus."""

    reason: str
    is_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """How one card fares now; with a fault, nothing else is known."""

    device_uuid: DeviceUuid
    memory_used_bytes: int | None = None
    gpu_percent: int | None = None
    memory_percent: int | None = None
    processes: tuple[ProcessMemory, ...] = ()
    fault: DeviceFault | None = None


class EventKind(StrEnum):
    """What happened to a device."""

    XID = "xid"
    """`data` is the XID, the driver's number for the error."""
    DOUBLE_BIT_ECC = "double-bit-ecc"
    LOST = "lost"
    OTHER = "other"
    """`data` is the driver's type of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """Something that happened to a card, or to one MIG instance of it (`instance_uuid`).

    `device_uuid` is None when the driver names a card that was never listed.
    """

    device_uuid: DeviceUuid | None
    kind: EventKind
    data: int = 0
    instance_uuid: DeviceUuid | None = None


class NvmlPort(Protocol):
    """The driver of one machine."""

    async def list_devices(self) -> tuple[NvmlDevice, ...]:
        """All cards seen since the port was opened, by index; looks for new ones."""
        ...

    async def sample_devices(self) -> tuple[DeviceSample, ...]:
        """One sample for each listed device."""
        ...

    async def sample_process_loads(self) -> tuple[ProcessLoad, ...]:
        """Who was busy since the last call; cards that fail, or do not tell, have nobody."""
        ...

    async def sample_gpu_percents(self) -> Mapping[DeviceUuid, int]:
        """How busy each card is; without those that fail, or do not tell."""
        ...

    async def next_events(self, timeout_s: float) -> tuple[DeviceEvent, ...]:
        """The events that have come, waiting for the first up to `timeout_s`; empty when none.

        Waits beside the other calls, not before them.
        """
        ...

    async def link_scores(self) -> Mapping[DeviceUuid, Mapping[DeviceUuid, int]]:
        """How well each two cards are connected (see `topology`); the higher the better."""
        ...

    async def close(self) -> None:
        """Let go of the driver."""
        ...
