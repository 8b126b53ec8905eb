"""Devices, the shares promised on them, and what is left."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NewType

DeviceUuid = NewType("DeviceUuid", str)

WHOLE_DEVICE_PERCENT: Final = 100
"""Cores of a whole device; a share of this size has the device to itself."""


_MODEL_TOKEN: Final = re.compile(r"[^\W_]+")


def model_matches(pattern: str, model: str) -> bool:
    """Whether the model is meant by the pattern; case does not count.

    Both are read as words: runs of letters and digits, whatever stands between them. The words
    of the pattern must occur in the model side by side. So for `NVIDIA A100-SXM4-80GB` the
    patterns `A100`, `a100-sxm4` and `nvidia a100` match; `A10`, `SXM` and `A100-80GB` do not.
    A pattern without any word matches nothing.
    """
    wanted = _MODEL_TOKEN.findall(pattern.casefold())
    words = _MODEL_TOKEN.findall(model.casefold())
    count = len(wanted)
    return count > 0 and any(
        words[start : start + count] == wanted for start in range(len(words) - count + 1)
    )


class DeviceMode(StrEnum):
    """How a device is shared, in the words of the node annotation."""

    HAMI_CORE = "hami-core"
    MIG = "mig"
    MPS = "mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as its node registers it.

    Attributes:
        device_uuid: the driver's identity, and the only key.
        device_index: the driver's ordinal; for people, never a key.
        model: the product name, such as `NVIDIA-Tesla T4`.
        memory_mib: what may be promised, after memory scaling.
        core_percent: what may be promised, 100 without core scaling.
        slot_count: how many containers may be on it at a time.
        numa_node: the NUMA node, or None where there is none.
    """

    device_uuid: DeviceUuid
    device_index: int
    model: str
    memory_mib: int
    core_percent: int = WHOLE_DEVICE_PERCENT
    slot_count: int
    numa_node: int | None = None
    mode: DeviceMode = DeviceMode.HAMI_CORE
    is_healthy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """What one container gets on one device; `core_percent` 0 is neither limited nor promised."""

    device_uuid: DeviceUuid
    memory_mib: int
    core_percent: int

    @property
    def hold(self) -> DeviceHold:
        """What the container alone takes of the device."""
        return DeviceHold(
            slots=1,
            memory_mib=self.memory_mib,
            core_percent=self.core_percent,
            is_exclusive=self.core_percent >= WHOLE_DEVICE_PERCENT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUsage:
    """One device and what is promised on it, summed over pods."""

    device: Device
    slots_used: int = 0
    memory_used_mib: int = 0
    core_used_percent: int = 0
    exclusive_count: int = 0
    """Shares of a whole device's cores: at most 1 unless the books are wrong."""

    @property
    def memory_free_mib(self) -> int:
        """MiB that may still be promised; negative when over-promised."""
        return self.device.memory_mib - self.memory_used_mib

    @property
    def core_free_percent(self) -> int:
        """Core percent that may still be promised; negative when over-promised."""
        return self.device.core_percent - self.core_used_percent

    @property
    def slots_free(self) -> int:
        """Containers that may still come."""
        return self.device.slot_count - self.slots_used

    @property
    def is_over_promised(self) -> bool:
        """Whether more is promised than there is."""
        return (
            min(self.memory_free_mib, self.core_free_percent, self.slots_free) < 0
            or self.exclusive_count > 1
        )

    def with_share(self, share: DeviceShare) -> DeviceUsage:
        """This usage with one more share on it."""
        return self.with_hold(share.hold)

    def with_hold(self, hold: DeviceHold) -> DeviceUsage:
        """This usage with one more pod's hold on it."""
        return replace(
            self,
            slots_used=self.slots_used + hold.slots,
            memory_used_mib=self.memory_used_mib + hold.memory_mib,
            core_used_percent=self.core_used_percent + hold.core_percent,
            exclusive_count=self.exclusive_count + hold.is_exclusive,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHold:
    """What a container takes of one device, or at most a pod at any moment (see `allocation`)."""

    slots: int
    memory_mib: int
    core_percent: int
    is_exclusive: bool

    def __add__(self, other: DeviceHold) -> DeviceHold:
        return DeviceHold(
            slots=self.slots + other.slots,
            memory_mib=self.memory_mib + other.memory_mib,
            core_percent=self.core_percent + other.core_percent,
            is_exclusive=self.is_exclusive or other.is_exclusive,
        )

    def most(self, other: DeviceHold) -> DeviceHold:
        """The greater of both, amount by amount."""
        return DeviceHold(
            slots=max(self.slots, other.slots),
            memory_mib=max(self.memory_mib, other.memory_mib),
            core_percent=max(self.core_percent, other.core_percent),
            is_exclusive=self.is_exclusive or other.is_exclusive,
        )


NO_HOLD: Final = DeviceHold(slots=0, memory_mib=0, core_percent=0, is_exclusive=False)
