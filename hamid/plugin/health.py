"""Looks at the devices, and publishes what they are and how they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.ticker import every
from hamid.errors import NvmlError
from hamid.model.health import DeviceFaultSeen, DeviceHealth, assess, xid_fault
from hamid.nvml.port import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.aiokit.latest import Latest
    from hamid.model.device import DeviceUuid
    from hamid.model.health import HealthReport
    from hamid.nvml.port import DeviceSample, NvmlDevice, NvmlPort

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """The devices of this node as last seen: what they are, how they are, how busy they are."""

    devices: tuple[NvmlDevice, ...] = ()
    samples: tuple[DeviceSample, ...] = ()
    health: HealthReport = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class HealthPoller:
    """Samples every device and publishes the view; a service.

    A driver that does not answer makes every device unhealthy, and is asked again.
    """

    nvml: NvmlPort
    view: Latest[DeviceView]
    clock: Callable[[], float]
    interval_s: float
    recovery_s: float
    name: str = "nvml-health"
    _event_faults: list[DeviceFaultSeen] = field(default_factory=list)

    async def run(self) -> None:
        """Sample until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Look once."""
        before = self.view.get()
        faults, self._event_faults = self._event_faults, []
        devices, samples = before.devices, before.samples
        try:
            devices = await self.nvml.list_devices()
            samples = await self.nvml.sample_devices()
        except NvmlError as error:
            faults += [
                DeviceFaultSeen(device_uuid=uuid, reason=f"the driver does not answer: {error}")
                for uuid in before.health
            ]
        faults += [
            DeviceFaultSeen(device_uuid=s.device_uuid, reason=s.fault.reason)
            for s in samples
            if s.fault is not None
        ]
        health = assess(
            before.health,
            present=[d.device_uuid for d in devices],
            faults=faults,
            now_s=self.clock(),
            recovery_s=self.recovery_s,
        )
        _log_changes(before.health, health)
        self.view.publish(DeviceView(devices=devices, samples=samples, health=health))

    def note_xid(self, device_uuid: DeviceUuid | None, xid: int) -> None:
        """Take note of an XID event until the next step; no UUID means every device."""
        uuids = self.view.get().health if device_uuid is None else [device_uuid]
        seen = [xid_fault(uuid, xid) for uuid in uuids]
        self._event_faults += [fault for fault in seen if fault is not None]
        log.info("xid seen", device_uuid=device_uuid, xid=xid, is_fatal=any(seen))


@dataclass(slots=True, kw_only=True)
class EventListener:
    """Waits for the driver's events, and has the devices looked at when one comes; a service."""

    nvml: NvmlPort
    poller: HealthPoller
    wait_s: float = 5.0
    name: str = "nvml-events"

    async def run(self) -> None:
        """Listen until cancelled."""
        async for _ in every(0.1):
            await self.step()

    async def step(self) -> None:
        """Wait for events once."""
        try:
            events = await self.nvml.next_events(self.wait_s)
        except NvmlError as error:
            log.debug("no events", error=repr(error))
            return
        for event in events:
            if event.kind is EventKind.XID:
                self.poller.note_xid(event.device_uuid, event.data)
        if events:
            await self.poller.step()


def _log_changes(before: HealthReport, after: HealthReport) -> None:
    fresh = DeviceHealth(is_healthy=True, reason="", since_s=0)
    for uuid, health in after.items():
        was = before.get(uuid, fresh)
        if was.is_healthy and not health.is_healthy:
            log.error(
                "device unhealthy",
                device_uuid=uuid,
                reason=health.reason,
                hint="no new pods go to it; drain the node and reset or replace it",
            )
        elif not was.is_healthy and health.is_healthy:
            log.info("device healthy again", device_uuid=uuid, down_s=health.since_s - was.since_s)
