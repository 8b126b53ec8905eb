"""Waiting for events: the blocking half, which runs in the client's waiting thread."""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from hamid.nvml.binding import ABSENT, nvml, raise_if_driver_wide
from hamid.nvml.port import DeviceEvent, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.model.device import DeviceUuid
    from hamid.nvml.cards import Cards

log = structlog.get_logger(__name__)

EVENT_TYPES: Final = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
EVENT_KINDS: Final[Mapping[int, EventKind]] = {
    nvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    nvml.nvmlEventTypeDoubleBitEccError: EventKind.DOUBLE_BIT_ECC,
}


@dataclass(slots=True, kw_only=True)
class Events:
    """The event set, and which cards are in it."""

    cards: Cards
    event_set: Any = None
    registered: set[DeviceUuid] = field(default_factory=set)
    without_events: set[DeviceUuid] = field(default_factory=set)
    lost: set[DeviceUuid] = field(default_factory=set)
    fetched: deque[DeviceEvent] = field(default_factory=deque)

    def register(self) -> tuple[DeviceEvent, ...]:
        """Register the cards that are not yet; the loss of those that turn out to be lost.

        A lost card stays out of the set, so that it does not keep the others from being heard;
        it is tried again each time.
        """
        if self.event_set is None:
            self.event_set = nvml.nvmlEventSetCreate()
        lost_before = set(self.lost)
        for uuid, handle in dict(self.cards.handles).items():
            if uuid in self.registered or uuid in self.without_events:
                continue
            try:
                self._register(uuid, handle)
            except nvml.NVMLError as error:
                raise_if_driver_wide(error)
                if error.value in ABSENT:
                    self._do_without(uuid)
                elif error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                    self.lost.add(uuid)
        return tuple(
            DeviceEvent(device_uuid=uuid, kind=EventKind.LOST)
            for uuid in sorted(self.lost - lost_before)
        )

    def _register(self, uuid: DeviceUuid, handle: Any) -> None:
        types = nvml.nvmlDeviceGetSupportedEventTypes(handle) & EVENT_TYPES
        if types == 0:
            self._do_without(uuid)
            return
        nvml.nvmlDeviceRegisterEvents(handle, types, self.event_set)
        self.registered.add(uuid)
        self.lost.discard(uuid)

    def _do_without(self, uuid: DeviceUuid) -> None:
        log.warning("device without events", device_uuid=uuid)
        self.without_events.add(uuid)

    def wait(self, timeout_ms: int) -> bool:
        """Fetch the events that have come; False when the driver refuses to wait (a lost card).

        They go to `fetched`, not to the caller: one who is cancelled meanwhile would lose them.
        """
        self.fetched.extend(self.register())
        try:
            while True:
                data = nvml.nvmlEventSetWait_v2(self.event_set, 0 if self.fetched else timeout_ms)
                self.fetched.append(self._event_of(data))
        except nvml.NVMLError_Timeout:
            return True
        except nvml.NVMLError_GpuIsLost:
            self.close()  # begin anew with the cards that still answer
            self.fetched.extend(self.register())
            return False

    def take(self) -> tuple[DeviceEvent, ...]:
        """The events fetched and not yet taken; called on the loop, beside a running `wait`."""
        return tuple(self.fetched.popleft() for _ in range(len(self.fetched)))

    def close(self) -> None:
        """Free the event set; events that nobody has fetched are gone.

        It is not used again, even where the driver fails to free it.
        """
        event_set, self.event_set = self.event_set, None
        self.registered.clear()
        if event_set is not None:
            nvml.nvmlEventSetFree(event_set)

    def _event_of(self, data: Any) -> DeviceEvent:
        address = _address_of(data.device)
        uuid = next(
            (u for u, h in dict(self.cards.handles).items() if _address_of(h) == address), None
        )
        kind = EVENT_KINDS.get(data.eventType, EventKind.OTHER)
        instance_uuid = None
        if uuid is not None:
            ids = (data.gpuInstanceId, data.computeInstanceId)
            instance_uuid = next(
                (
                    instance.device_uuid
                    for instance in self.cards.devices[uuid].mig_instances
                    if (instance.gpu_instance_id, instance.compute_instance_id) == ids
                ),
                None,
            )
        return DeviceEvent(
            device_uuid=uuid,
            kind=kind,
            data=data.eventType if kind is EventKind.OTHER else data.eventData,
            instance_uuid=instance_uuid,
        )


def _address_of(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
