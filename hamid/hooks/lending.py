"""Decides many times a second how fast each container may use its devices, and tells its library.

What is idle is lent, what is owed comes first, and NVML's figures correct what libraries measure:
see `shares` and `correction`. What is read is the containers' usage pages, which are never
trusted; what is written is their live pages, which only the host writes. When this stops, heartbeats
get old, and the control pages' caps hold.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.farewell import last_words
from hamid.aiokit.latest import Latest
from hamid.aiokit.ticker import every, pause
from hamid.errors import HookError
from hamid.hooks.lent import LentContainer, control_seen
from hamid.hooks.shares import rates
from hamid.hooks.whose import MappedPages
from hamid.nvml.errors import NvmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.hooks.whose import PageKey
    from hamid.nvml.port import DeviceSample, NvmlPort, ProcessLoad

log = structlog.get_logger(__name__)

LOOK_AGAIN_NS: Final = 250_000_000
"""After this, containers that came and went, and changed limits, are looked for."""
IDLE_S: Final = 0.26
"""How often to look while no container uses its devices: heartbeats do not get old by it."""
IDLE_INTERVALS: Final = 5
"""So many looks are left out while nobody lends: a heartbeat is all that is needed."""
FAREWELL_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDirs:
    """Where the host has a container's pages."""

    limits: Path
    usage: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTerms:
    """What a container may have of one device at this moment, by the lender."""

    rate_percent: float | None
    """Of the device's time, before the correction; None where its time has no limit."""
    correction: float = 1.0
    uncounted_bytes: int = 0
    """Held beyond what is charged; it counts against the limit."""
    used_percent: float = 0.0
    """Of the device's time, in the last second or so; not known where its time has no limit."""


@dataclass(slots=True, kw_only=True)
class Lender:
    """Keeps the live pages of a node's containers; a service.

    Args:
        directories: of each grant, asked anew every while.
        clock_ns: CLOCK_MONOTONIC, for the libraries read the same.
        floor_percent: what containers of lower priority keep while higher ones are busy; 0 lets
            them be stopped.
        weighs_memory: what the driver says processes hold beyond what they are charged counts
            against their container's limit.
        terms: where it is told what each may have, by grant and device, every while.
    """

    directories: Callable[[], Mapping[str, ContainerDirs]]
    nvml: NvmlPort
    thread: OneThread
    clock_ns: Callable[[], int]
    interval_s: float = 0.02
    floor_percent: int = 5
    weighs_memory: bool = False
    terms: Latest[Mapping[tuple[str, str], DeviceTerms]] = field(default_factory=lambda: Latest({}))
    name: str = "lender"
    pages: MappedPages = field(default_factory=MappedPages)
    _containers: dict[str, LentContainer] = field(default_factory=dict)
    _looked_ns: int = -LOOK_AGAIN_NS
    _left_out: int = 0
    is_busy: bool = field(default=False, init=False)
    """Whether any container used its devices at the last look."""
    _watched: set[str] = field(default_factory=set)
    """Devices whose processes the driver tells of: there errors of our measure get corrected."""
    _silent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Whose control pages, as they were seen, leave nothing to tell."""
    _unkept: set[str] = field(default_factory=set)
    """Of whom it was said that their live pages cannot be kept."""

    async def run(self) -> None:
        """Decide until cancelled."""
        try:
            while True:
                await self.step()
                await pause(self.interval_s if self.is_busy else IDLE_S)
        finally:
            # There, for what is under way in the thread may open more of them yet.
            closed = self.thread.call(self._find, {})
            await last_words(closed, what="close live pages", timeout_s=FAREWELL_S)

    async def step(self) -> None:
        """Look at all pages once, and say what each may do now."""
        now_ns = self.clock_ns()
        if now_ns - self._looked_ns >= LOOK_AGAIN_NS:
            self._looked_ns = now_ns
            self.terms.publish(self._terms())
            await self.thread.call(self._find, dict(self.directories()))
        elif not self._is_lending() and self._left_out < IDLE_INTERVALS:
            self._left_out += 1
            return
        self._left_out = 0
        if not self._containers:
            self.is_busy = False
            return
        await self.thread.call(self._decide, self.clock_ns())

    def _is_lending(self) -> bool:
        return any(container.can_lend for container in self._containers.values())

    async def sample(self) -> None:
        """Compare what was charged with what the driver saw; beside the looks, for it may take long."""
        now_ns = self.clock_ns()
        with suppress(NvmlError):  # then nothing is corrected; who is at fault, health says
            loads = await self.nvml.sample_process_loads()
            await self.thread.call(self._observe, tuple(loads), now_ns)
            devices = {u.device_uuid for c in self._containers.values() for u in c.uses}
            if not devices <= self._watched:
                percents = await self.nvml.sample_gpu_percents()
                by_uuid = {str(uuid): percent for uuid, percent in percents.items()}
                await self.thread.call(self._observe_devices, by_uuid)

    async def weigh(self) -> None:
        """Compare what is charged of memory with what the driver says that processes hold."""
        if not self.weighs_memory or not self._containers:
            return
        now_ns = self.clock_ns()
        before = await self.thread.call(self._charged)
        with suppress(NvmlError):  # then what was last believed stands
            samples = await self.nvml.sample_devices()
            await self.thread.call(self._weigh, samples, before, now_ns)

    def _terms(self) -> dict[tuple[str, str], DeviceTerms]:
        return {
            (grant_id, use.device_uuid): DeviceTerms(
                rate_percent=None if use.rate_permille is None else use.rate_permille / 10,
                correction=use.correction.factor,
                uncounted_bytes=use.uncounted.believed_bytes,
                used_percent=use.correction.used_percent,
            )
            for grant_id, container in self._containers.items()
            for use in container.uses
        }

    # In the thread.

    def _charged(self) -> dict[str, dict[str, int]]:
        return {name: container.charged_bytes() for name, container in self._containers.items()}

    def _weigh(
        self, samples: Iterable[DeviceSample], before: Mapping[str, dict[str, int]], now_ns: int
    ) -> None:
        held: dict[object, dict[str, int]] = {}
        ours = self._page_keys()
        for sample in samples:
            uuid = str(sample.device_uuid)
            for process in sample.processes:
                page = self.pages.of(process.pid, among=ours, now_ns=now_ns)
                if page is not None and process.used_bytes:
                    of_page = held.setdefault(page, {})
                    of_page[uuid] = of_page.get(uuid, 0) + process.used_bytes
        for name, container in self._containers.items():
            container.weigh(held.get(container.page_key, {}), before.get(name, {}))

    def _page_keys(self) -> set[PageKey]:
        keys = (container.page_key for container in self._containers.values())
        return {key for key in keys if key is not None}

    def _find(self, directories: Mapping[str, ContainerDirs]) -> None:
        containers = dict(self._containers)  # the loop may be reading those it has
        for grant_id in containers.keys() - directories.keys():
            containers.pop(grant_id).close()
        for grant_id, dirs in directories.items():
            known = containers.get(grant_id)
            if known is not None and known.is_current():
                continue
            if known is not None:
                containers.pop(grant_id).close()
            opened = self._opened(grant_id, dirs)
            if opened is not None:
                containers[grant_id] = opened
        self._containers = containers
        self._silent = {g: seen for g, seen in self._silent.items() if g in directories}
        self._unkept &= directories.keys()

    def _opened(self, grant_id: str, dirs: ContainerDirs) -> LentContainer | None:
        """Its pages; None where there is nothing to tell, or they cannot be had, which is said once."""
        try:
            seen = control_seen(dirs.limits)
            if self._silent.get(grant_id) == seen:
                return None
            opened = LentContainer.open(
                limits_dir=dirs.limits, usage_dir=dirs.usage, is_weighed=self.weighs_memory
            )
        except FileNotFoundError:
            return None  # being made, or removed
        except (OSError, HookError) as error:
            if grant_id not in self._unkept:
                log.warning("live page not kept", grant_id=grant_id, error=str(error))
            self._unkept.add(grant_id)
            return None
        self._unkept.discard(grant_id)
        if opened is None:
            self._silent[grant_id] = seen
        return opened

    def _observe(self, loads: Iterable[ProcessLoad], now_ns: int) -> None:
        percent: dict[tuple[object, str], float] = {}
        ours = self._page_keys()
        for load in loads:
            page = self.pages.of(load.pid, among=ours, now_ns=now_ns)
            if page is not None:
                key = (page, str(load.device_uuid))
                percent[key] = percent.get(key, 0.0) + load.gpu_percent
                self._watched.add(str(load.device_uuid))
        for container in self._containers.values():
            for use in container.uses:
                if use.device_uuid in self._watched:
                    use.correction.observe(percent.get((container.page_key, use.device_uuid), 0.0))

    def _observe_devices(self, percents: Mapping[str, int]) -> None:
        """Where nobody tells of processes: all together cannot have used more than the device did.

        That they used less may be due to others, of whom we know nothing, so it says nothing.
        """
        charged = {
            id(use): (use, use.charged_percent())
            for container in self._containers.values()
            for use in container.uses
            if use.device_uuid not in self._watched
        }
        total: dict[str, float] = {}
        for use, percent in charged.values():
            total[use.device_uuid] = total.get(use.device_uuid, 0.0) + percent
        for use, percent in charged.values():
            busy = percents.get(use.device_uuid)
            if busy is not None and percent:
                use.correction.observe(percent * min(1.0, busy / total[use.device_uuid]))

    def _decide(self, now_ns: int) -> None:
        by_uuid: dict[str, list[tuple[LentContainer, int]]] = {}
        for container in self._containers.values():
            container.look(now_ns)
            for index, use in enumerate(container.uses):
                by_uuid.setdefault(use.device_uuid, []).append((container, index))
        for uuid, parts in by_uuid.items():
            tenants = [container.uses[index].tenant for container, index in parts]
            told = rates(tenants, floor=10 * self.floor_percent)
            busy = sum(tenant.is_active for tenant in tenants)
            for (container, index), rate, tenant in zip(parts, told, tenants, strict=True):
                is_contended = uuid in self._watched and busy > tenant.is_active
                container.say(index, rate, is_contended=is_contended)
        for container in self._containers.values():
            container.beat(now_ns)
        self.is_busy = any(
            use.tenant.is_active
            for container in self._containers.values()
            for use in container.uses
        )


@dataclass(slots=True, kw_only=True)
class LoadSampler:
    """Has a lender ask the driver how busy who is; a service.

    Not the lender itself: a driver that is slow to answer must not stop its heartbeats.
    """

    lender: Lender
    interval_s: float = 0.2
    """The driver takes its own samples every sixth of a second."""
    name: str = "load-sampler"

    async def run(self) -> None:
        """Ask until cancelled."""
        async for _ in every(self.interval_s):
            if self.lender.is_busy:
                await self.lender.sample()


@dataclass(slots=True, kw_only=True)
class MemoryWeigher:
    """Has a lender compare memory with the driver's figures; a service."""

    lender: Lender
    interval_s: float = 1.0
    name: str = "memory-weigher"

    async def run(self) -> None:
        """Compare until cancelled."""
        async for _ in every(self.interval_s):
            await self.lender.weigh()
