"""A driver in memory, with the same contract as the real client.

It ships beside the port: tests use it, and simulated nodes do.

Not imitated: time that calls take, drivers that hang, cards found by index after a renumbering,
events that happen between two registrations.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Self

from hamid.nvml.port import DeviceEvent, DeviceFault, DeviceSample, EventKind
from hamid.nvml.topology import pair_score

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hamid.model.device import DeviceUuid
    from hamid.nvml.errors import NvmlError
    from hamid.nvml.port import NvmlDevice, ProcessLoad
    from hamid.nvml.profiles import SimulatedCard

SAME_NUMA_LEVEL: Final = 40
ACROSS_NUMA_LEVEL: Final = 50
LOST: Final = DeviceFault(reason="NVML error 15: GPU is lost", is_lost=True)


class FakeNvml:
    """`NvmlPort` in memory: cards, their samples and events are set by whoever holds it.

    Args:
        devices: the cards at the start.
        link_scores: by UUID and UUID, as the port returns them; `of_cards` computes them.
    """

    def __init__(
        self,
        devices: Iterable[NvmlDevice] = (),
        *,
        link_scores: Mapping[DeviceUuid, Mapping[DeviceUuid, int]] | None = None,
    ) -> None:
        self._present: dict[DeviceUuid, NvmlDevice] = {}
        self._listed: dict[DeviceUuid, NvmlDevice] = {}
        self._samples: dict[DeviceUuid, DeviceSample] = {}
        self._faults: dict[DeviceUuid, DeviceFault] = {}
        self._loads: tuple[ProcessLoad, ...] = ()
        self._scores = dict(link_scores or {})
        self._events: list[DeviceEvent] = []
        self._has_events = asyncio.Event()
        self._next_errors: list[NvmlError] = []
        self._error: NvmlError | None = None
        self.is_closed = False
        for device in devices:
            self.plug(device)
        self._look()

    @classmethod
    def of_cards(cls, cards: Sequence[SimulatedCard]) -> Self:
        """The machine that `profiles.simulated_cards` describes."""
        return cls((card.device for card in cards), link_scores=scores_of(cards))

    # What tests and simulated nodes do to the machine.

    def plug(self, device: NvmlDevice) -> None:
        """Add a card, or change the facts of one; the next listing finds it."""
        self._present[device.device_uuid] = device
        self._samples.setdefault(
            device.device_uuid,
            DeviceSample(
                device_uuid=device.device_uuid,
                memory_used_bytes=0,
                gpu_percent=None if device.mig_enabled else 0,
                memory_percent=None if device.mig_enabled else 0,
            ),
        )

    def use(self, device_uuid: DeviceUuid, **changes: Any) -> None:
        """Change what samples of this card say, field by field of `DeviceSample`."""
        self._samples[device_uuid] = replace(self._samples[device_uuid], **changes)

    def load(self, *loads: ProcessLoad) -> None:
        """Let these processes be busy, until called again."""
        self._loads = loads

    def fail(self, device_uuid: DeviceUuid, reason: str) -> None:
        """Let the card answer with an error until it is mended."""
        self._faults[device_uuid] = DeviceFault(reason=reason, is_lost=False)

    def lose(self, device_uuid: DeviceUuid) -> None:
        """Let the card fall off the bus."""
        self._faults[device_uuid] = LOST
        self.emit(DeviceEvent(device_uuid=device_uuid, kind=EventKind.LOST))

    def mend(self, device_uuid: DeviceUuid) -> None:
        """Let the card answer again."""
        self._faults.pop(device_uuid, None)

    def emit(self, event: DeviceEvent) -> None:
        """Let an event happen."""
        self._events.append(event)
        self._has_events.set()

    def fail_next(self, error: NvmlError) -> None:
        """Let the next call raise this."""
        self._next_errors.append(error)

    def fail_driver(self, error: NvmlError | None) -> None:
        """Let every call raise this, until called with None."""
        self._error = error

    # The port.

    async def list_devices(self) -> tuple[NvmlDevice, ...]:
        """All cards seen since the start, by index."""
        self._raise()
        self._look()
        return self._in_order()

    async def sample_devices(self) -> tuple[DeviceSample, ...]:
        """One sample for each listed card."""
        self._raise()
        return tuple(
            DeviceSample(device_uuid=device.device_uuid, fault=fault)
            if (fault := self._faults.get(device.device_uuid))
            else self._samples[device.device_uuid]
            for device in self._in_order()
        )

    async def sample_process_loads(self) -> tuple[ProcessLoad, ...]:
        """The loads that were set, of the cards that answer."""
        self._raise()
        return tuple(load for load in self._loads if load.device_uuid not in self._faults)

    async def sample_gpu_percents(self) -> Mapping[DeviceUuid, int]:
        """What the samples say."""
        return {
            sample.device_uuid: sample.gpu_percent
            for sample in await self.sample_devices()
            if sample.gpu_percent is not None
        }

    async def next_events(self, timeout_s: float) -> tuple[DeviceEvent, ...]:
        """The events emitted since the last call."""
        self._raise()
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_events.wait()
        except TimeoutError:
            return ()
        events, self._events = tuple(self._events), []
        self._has_events.clear()
        return events

    async def link_scores(self) -> Mapping[DeviceUuid, Mapping[DeviceUuid, int]]:
        """The scores that were given, of the cards that answer."""
        self._raise()
        alive = [uuid for uuid in self._listed if uuid not in self._faults]
        return {
            one: {o: s for o, s in self._scores.get(one, {}).items() if o in alive} for one in alive
        }

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def _look(self) -> None:
        for uuid, device in self._present.items():
            if uuid not in self._faults:
                self._listed[uuid] = device

    def _in_order(self) -> tuple[NvmlDevice, ...]:
        return tuple(sorted(self._listed.values(), key=lambda d: (d.device_index, d.device_uuid)))

    def _raise(self) -> None:
        if self._next_errors:
            raise self._next_errors.pop(0)
        if self._error is not None:
            raise self._error


def scores_of(
    cards: Sequence[SimulatedCard],
) -> dict[DeviceUuid, Mapping[DeviceUuid, int]]:
    """The link scores of simulated cards, by the same rules as the simulated library's."""
    scores: dict[DeviceUuid, dict[DeviceUuid, int]] = {c.device.device_uuid: {} for c in cards}
    for one, other in combinations(cards, 2):
        a, b = one.device, other.device
        score = pair_score(
            ancestor_level=SAME_NUMA_LEVEL if a.numa_node == b.numa_node else ACROSS_NUMA_LEVEL,
            links_there=_link_count(one, other),
            links_back=_link_count(other, one),
        )
        scores[a.device_uuid][b.device_uuid] = scores[b.device_uuid][a.device_uuid] = score
    return dict(scores)


def _link_count(one: SimulatedCard, other: SimulatedCard) -> int:
    direct = one.links.get(other.device.device_uuid, 0)
    if direct == 0 and "switch" in other.links:
        return one.links.get("switch", 0)
    return direct
