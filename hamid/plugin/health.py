"""Looks at the devices, and publishes what they are and how they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from hamid.aiokit.ticker import every, pause
from hamid.errors import NvmlError
from hamid.model.health import DeviceFaultSeen, DeviceHealth, assess, xid_fault
from hamid.nvml.errors import DriverStuck, DriverUnavailable
from hamid.nvml.port import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.aiokit.latest import Latest
    from hamid.model.health import HealthReport
    from hamid.nvml.port import DeviceEvent, DeviceSample, NvmlDevice, NvmlPort

log = structlog.get_logger(__name__)

GIVE_UP_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """The devices of this node as last seen: what they are, how they are, how busy they are.

    Attributes:
        samples: of the last look only; none while the driver does not answer.
        is_known: the driver has said once which devices there are; before that, none says nothing.
    """

    devices: tuple[NvmlDevice, ...] = ()
    samples: tuple[DeviceSample, ...] = ()
    health: HealthReport = field(default_factory=dict)
    is_known: bool = False


@dataclass(slots=True, kw_only=True)
class HealthPoller:
    """Samples every device and publishes the view; a service.

    A driver that does not answer makes every device unhealthy, and is asked again. Steps may
    overlap (an event has the devices looked at at once): each works on the newest view, so that
    none undoes what another has found.

    Where it answers with errors for `GIVE_UP_S`, the process ends: one that was reloaded or upgraded
    is never found again by who has its old library open. One that hangs would have the next
    process hang, too.
    """

    nvml: NvmlPort
    view: Latest[DeviceView]
    clock: Callable[[], float]
    interval_s: float
    recovery_s: float
    name: str = "nvml-health"
    _event_faults: list[DeviceFaultSeen] = field(default_factory=list)
    _down_since_s: float | None = None

    async def run(self) -> None:
        """Sample until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Look once."""
        devices: tuple[NvmlDevice, ...] | None = None
        samples: tuple[DeviceSample, ...] = ()
        error: NvmlError | None = None
        try:
            devices = await self.nvml.list_devices()
            samples = await self.nvml.sample_devices()
        except NvmlError as caught:
            error = caught
        self._log_driver(error)
        # From here on nothing is awaited.
        before = self.view.get()
        is_known = before.is_known or devices is not None
        devices = before.devices if devices is None else devices
        health = self._assess(devices, samples, error)
        _log_changes(before.health, health)
        self.view.publish(
            DeviceView(devices=devices, samples=samples, health=health, is_known=is_known)
        )
        if error is not None:
            self._require_hope(error)

    def _require_hope(self, error: NvmlError) -> None:
        down_s = self.clock() - (self._down_since_s or 0.0)
        if down_s >= GIVE_UP_S and not isinstance(error, DriverStuck):
            raise DriverUnavailable(
                f"the driver has not answered for {down_s:.0f} s: {error.message}",
                hint=f"the daemon starts again with the driver that is there then; {error.hint}",
            ) from error

    def note_event(self, event: DeviceEvent) -> None:
        """Take note of an event until the next step.

        One of a card that was never listed is nobody's fault here.
        """
        fault = _event_fault(event)
        if fault is not None:
            self._event_faults.append(fault)
        log.info(
            "device event seen",
            device_uuid=event.device_uuid,
            kind=event.kind,
            data=event.data,
            is_fault=fault is not None,
        )

    def _assess(
        self,
        devices: tuple[NvmlDevice, ...],
        samples: tuple[DeviceSample, ...],
        error: NvmlError | None,
    ) -> HealthReport:
        before = self.view.get().health
        present = {device.device_uuid for device in devices}
        faults, self._event_faults = self._event_faults, []
        if error is not None:
            reason = f"the driver does not answer: {error.message}"
            faults += [DeviceFaultSeen(device_uuid=u, reason=reason) for u in present | set(before)]
        faults += [
            DeviceFaultSeen(device_uuid=s.device_uuid, reason=s.fault.reason)
            for s in samples
            if s.fault is not None
        ]
        return assess(
            before,
            present=present,
            faults=faults,
            now_s=self.clock(),
            recovery_s=self.recovery_s,
        )

    def _log_driver(self, error: NvmlError | None) -> None:
        now_s = self.clock()
        if error is not None and self._down_since_s is None:
            self._down_since_s = now_s
            log.error("driver not answering", reason=error.message, hint=error.hint)
        elif error is None and self._down_since_s is not None:
            log.info("driver answers again", down_s=now_s - self._down_since_s)
            self._down_since_s = None


@dataclass(slots=True, kw_only=True)
class EventListener:
    """Waits for the driver's events, and has the devices looked at when one comes; a service.

    Args:
        wait_s: how long one call waits for an event, and how long a driver is left in peace that
            has no events to give.
        pause_s: the least time between two looks, however fast events come.
    """

    nvml: NvmlPort
    poller: HealthPoller
    wait_s: float = 5.0
    pause_s: float = 0.1
    name: str = "nvml-events"

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            await pause(self.pause_s if await self.step() else self.wait_s)

    async def step(self) -> bool:
        """Wait for events once; returns whether the driver could be asked."""
        try:
            events = await self.nvml.next_events(self.wait_s)
        except NvmlError as error:
            log.debug("no events", error=repr(error))
            return False
        for event in events:
            self.poller.note_event(event)
        if events:
            await self.poller.step()
        return True


def _event_fault(event: DeviceEvent) -> DeviceFaultSeen | None:
    if event.device_uuid is None:
        return None
    match event.kind:
        case EventKind.XID:
            return xid_fault(event.device_uuid, event.data)
        case EventKind.LOST:
            return DeviceFaultSeen(device_uuid=event.device_uuid, reason="the driver lost the card")
        case EventKind.DOUBLE_BIT_ECC | EventKind.OTHER:
            return None  # The first comes with an XID of its own.
        case _:
            assert_never(event.kind)


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
