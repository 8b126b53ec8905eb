"""Whether a device may be given to new containers, decided from what was seen of it. Pure.

A device becomes unhealthy at the first fault, and healthy again once it has been free of faults
for the recovery time: faults that come and go must not make pods come and go.

XIDs are the driver's error codes (NVIDIA's catalogue of XID errors). Those that an application
causes on itself say nothing about the card; those in `FATAL_XIDS` make it unusable until a reset
or a restart, which is seen as its being free of faults again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hamid.model.device import DeviceUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FATAL_XIDS: Final[Mapping[int, str]] = {
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    64: "row remapping failed",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    95: "uncontained ECC error",
    109: "context switch time-out",
    119: "no answer from the GSP firmware",
    120: "error in the GSP firmware",
    140: "unrecovered ECC error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """One device's health.

    Attributes:
        reason: why it is unhealthy, or empty.
        since_s: when it became as it is.
        last_fault_s: when it was last seen with a fault; None for never.
    """

    is_healthy: bool
    reason: str
    since_s: float
    last_fault_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFaultSeen:
    """A fault of one device, in words."""

    device_uuid: DeviceUuid
    reason: str


def xid_fault(device_uuid: DeviceUuid, xid: int) -> DeviceFaultSeen | None:
    """The fault that an XID event means, or None where the card is not to blame."""
    if xid not in FATAL_XIDS:
        return None
    return DeviceFaultSeen(device_uuid=device_uuid, reason=f"XID {xid}: {FATAL_XIDS[xid]}")


HealthReport = dict[DeviceUuid, DeviceHealth]


def assess(
    report: Mapping[DeviceUuid, DeviceHealth],
    *,
    present: Iterable[DeviceUuid],
    faults: Iterable[DeviceFaultSeen],
    now_s: float,
    recovery_s: float,
) -> HealthReport:
    """The report after one more look at the devices.

    Args:
        report: the report so far; devices in it that are not present any more are lost.
        present: the devices that the driver lists.
        faults: what is wrong now, or was since the last look.
        now_s: by any clock that only goes forward.
        recovery_s: how long without a fault makes a device healthy again.
    """
    reasons = {fault.device_uuid: fault.reason for fault in faults}
    listed = set(present)
    reasons |= {
        uuid: "the driver lists it no more"
        for uuid in report
        if uuid not in listed and uuid not in reasons
    }
    return {
        uuid: _assess(report.get(uuid), reasons.get(uuid), now_s=now_s, recovery_s=recovery_s)
        for uuid in sorted(listed | set(report))
    }


def _assess(
    health: DeviceHealth | None, reason: str | None, *, now_s: float, recovery_s: float
) -> DeviceHealth:
    if reason is not None:
        is_news = health is None or health.is_healthy or health.reason != reason
        since_s = now_s if is_news or health is None else health.since_s
        return DeviceHealth(is_healthy=False, reason=reason, since_s=since_s, last_fault_s=now_s)
    if health is None:
        return DeviceHealth(is_healthy=True, reason="", since_s=now_s)
    if health.is_healthy or health.last_fault_s is None:
        return health
    if now_s - health.last_fault_s < recovery_s:
        return health
    return DeviceHealth(is_healthy=True, reason="", since_s=now_s, last_fault_s=health.last_fault_s)
