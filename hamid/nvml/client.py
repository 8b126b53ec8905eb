"""The real driver, through `pynvml` (see `binding`).

Invariants:

1. Every call into the library is made in one of two worker threads: one asks, one waits for
   events. NVML itself allows calls from several threads.
2. Every await has a deadline. A call that outlives it goes on in its thread; the next ones wait
   behind it and miss theirs, and nobody asks in a second thread.
3. A card's error stays with the card, unless its code speaks of the driver as a whole.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.farewell import last_words
from hamid.nvml.binding import nvml, start, translated
from hamid.nvml.cards import Cards
from hamid.nvml.errors import DriverStuck, NvmlError
from hamid.nvml.events import Events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hamid.model.device import DeviceUuid
    from hamid.nvml.port import DeviceEvent, DeviceSample, NvmlDevice, ProcessLoad

P = ParamSpec("P")
R = TypeVar("R")

CALL_DEADLINE_S: Final = 10.0
"""A healthy driver answers within milliseconds, a busy one within a second or two."""

WAIT_SLICE_S: Final = 1.0
"""A wait for events blocks its thread no longer, so that closing never takes longer either."""

FAREWELL_S: Final = 3.0


class NvmlClient:
    """`NvmlPort` on the real driver; made by `open`."""

    def __init__(self, *, host_root: Path, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._asking = OneThread(name="nvml")
        self._waiting = OneThread(name="nvml-events")
        self._cards = Cards(host_root=host_root)
        self._events = Events(cards=self._cards)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        library_path: Path | None = None,
        host_root: Path = Path("/"),
        deadline_s: float = CALL_DEADLINE_S,
    ) -> AsyncIterator[Self]:
        """Start the library, list the devices and watch for their events.

        Args:
            library_path: `libnvidia-ml.so.1` itself; None lets the system's loader find it. A
                process has one driver library: the one opened last counts for all.
            host_root: where the host's `/sys` is found.
            deadline_s: the longest that any one call may take.

        Raises:
            DriverUnavailable: there is no driver, or library and kernel module do not fit.
        """
        client = cls(host_root=host_root, deadline_s=deadline_s)
        try:
            await client._ask(start, library_path)
        except NvmlError:
            client._asking.close()
            client._waiting.close()
            raise
        try:
            await client.list_devices()
            await client._ask_events(client._events.register)
            yield client
        finally:
            await last_words(client.close(), what="close NVML", timeout_s=FAREWELL_S)

    async def list_devices(self) -> tuple[NvmlDevice, ...]:
        """All cards seen since the port was opened, by index; looks for new ones."""
        return await self._ask(self._cards.list_devices)

    async def sample_devices(self) -> tuple[DeviceSample, ...]:
        """One sample for each listed device."""
        return await self._ask(self._cards.sample_devices)

    async def sample_process_loads(self) -> tuple[ProcessLoad, ...]:
        """Who was busy since the last call."""
        return await self._ask(self._cards.sample_process_loads)

    async def sample_gpu_percents(self) -> Mapping[DeviceUuid, int]:
        """How busy each card is."""
        return await self._ask(self._cards.sample_gpu_percents)

    async def link_scores(self) -> Mapping[DeviceUuid, Mapping[DeviceUuid, int]]:
        """How well each two cards are connected; cards that fail are left out."""
        return await self._ask(self._cards.link_scores)

    async def next_events(self, timeout_s: float) -> tuple[DeviceEvent, ...]:
        """The events that have come, waiting for the first up to `timeout_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while True:
            slice_s = max(0.0, min(until - loop.time(), WAIT_SLICE_S))
            can_wait = await self._ask_events(self._events.wait, round(slice_s * 1000))
            events = self._events.take()
            if events or loop.time() >= until:
                return events
            if not can_wait:
                await asyncio.sleep(slice_s)

    async def close(self) -> None:
        """Stop the library; waits for a running call, at most for its deadline."""
        try:
            await self._ask_events(self._events.close)
            await self._ask(nvml.nvmlShutdown)
        finally:
            self._waiting.close()
            self._asking.close()

    async def _ask(self, question: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await _call(self._asking, self._deadline_s, lambda: question(*args, **kwargs))

    async def _ask_events(self, question: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await _call(
            self._waiting, self._deadline_s + WAIT_SLICE_S, lambda: question(*args, **kwargs)
        )


async def _call(thread: OneThread, deadline_s: float, question: Callable[[], R]) -> R:
    try:
        async with asyncio.timeout(deadline_s):
            return await thread.call(question)
    except TimeoutError as error:
        raise DriverStuck(
            f"the driver did not answer within {deadline_s:g} s",
            hint="see `dmesg` for XID errors; if it lasts, drain the node and reboot it",
        ) from error
    except nvml.NVMLError as error:
        raise translated(error) from error
