"""What tenants of one saturated device get, against what each was promised, in points.

The daemon's lender runs beside them, with the simulated NVML. `value` is the distance of a tenant's
mean from its set point, `deviation` that of whole seconds from each other. Work counts when the device
has done it, not when it was launched. `lending` cases: what a borrower gets while the owner is idle, what
both get when it is back, and how long the owner then waits for its share.
"""

import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from hamid.aiokit.blocking import OneThread
from hamid.hooks.abi.pages import CoreMode
from hamid.hooks.lending import ContainerDirs, Lender, LoadSampler
from hamid.nvml.client import NvmlClient
from native.tests.bench.stand import CARD, NATIVE, Stand, report

MS = 1_000_000
SETTLING_S = 3
MEASURED_S = 8
SLOT_MS = 10
SHARES = ((30, 70), (50, 50), (10, 90), (20, 30, 50))
KERNELS_NS = (MS // 10, MS, 10 * MS)
WINDOW_MS = 100
TOLERATED_POINTS = 3


@dataclass(slots=True)
class Machine:
    """A simulated card, and the containers that share it."""

    directory: Path
    stands: list[Stand] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.directory / "devices").write_text(
            f"uuid={CARD}\nname=NVIDIA H100\nmemory_mib=81920\n"
        )
        os.environ |= self.env  # noqa: TID251 - the simulated NVML is in this process

    @property
    def env(self) -> dict[str, str]:
        """What the simulated drivers read."""
        return {
            "HAMID_SIM_DEVICES": str(self.directory / "devices"),
            "HAMID_SIM_STATE": str(self.directory / "state"),
        }

    def add(
        self, percent: int, mode: CoreMode = CoreMode.HARD, *, priority: int = 1, weight: int = 1
    ) -> Stand:
        """Another container."""
        directory = self.directory / f"tenant{len(self.stands)}"
        directory.mkdir()
        stand = Stand(
            directory,
            limit_mib=None,
            driver=NATIVE / "build/sim",
            core_percent=percent,
            mode=mode,
            priority=priority,
            weight=weight,
        )
        self.stands.append(stand)
        return stand

    def directories(self) -> dict[str, ContainerDirs]:
        """What the daemon knows of them."""
        return {
            str(stand.directory): ContainerDirs(limits=stand.directory, usage=stand.directory)
            for stand in self.stands
        }


@contextlib.asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    """Make a machine whose containers a lender looks after."""
    with tempfile.TemporaryDirectory() as directory:
        made = Machine(Path(directory))
        library = NATIVE / "build/sim/libnvidia-ml.so.1"
        async with NvmlClient.open(library_path=library) as nvml:
            lender = Lender(
                directories=made.directories,
                nvml=nvml,
                thread=OneThread(name="lender"),
                clock_ns=time.monotonic_ns,
            )
            async with asyncio.TaskGroup() as group:
                services = (lender, LoadSampler(lender=lender))
                lending = [group.create_task(service.run()) for service in services]
                yield made
                for task in lending:
                    task.cancel()
        lender.thread.close()


class Busy:
    """A program that keeps its container's share of the device busy."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(
        cls, made: Machine, stand: Stand, how: str, kernel_ns: int, milliseconds: int, **more: int
    ) -> "Busy":
        """Start it; it waits until it is told to begin. `warm`: after so many kernels."""
        process = await asyncio.create_subprocess_exec(
            str(NATIVE / "build/bin/launch"),
            *(
                how,
                str(kernel_ns),
                str(milliseconds),
                "132",
                str(SLOT_MS),
                str(more.get("warm", 0)),
            ),
            env={**stand.hooked_env, **made.env},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        return cls(process)

    def begin(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def told(self) -> dict:
        """What it says when it has ended."""
        out, _ = await self.process.communicate()
        return json.loads(out.splitlines()[-1])


def percents(told: dict, first_ms: float, last_ms: float) -> list[float]:
    """What was done for a program in each slot between these, since it began."""
    slots = told["seconds"][int(first_ms // SLOT_MS) : int(last_ms // SLOT_MS)]
    return [100 * gpu_ns / (SLOT_MS * MS) for gpu_ns in slots]


def used(told: dict, first_s: float, last_s: float) -> tuple[float, float]:
    """Mean, and deviation of whole seconds."""
    seconds = [
        statistics.fmean(percents(told, 1000 * s, 1000 * (s + 1)))
        for s in range(int(first_s), int(last_s))
    ]
    return statistics.fmean(seconds), statistics.pstdev(seconds)


def print_share(case: str, told: dict, set_point: float, first_s: float, last_s: float) -> None:
    """Print a tenant's line."""
    mean, deviation = used(told, first_s, last_s)
    report(
        "bench-tenants",
        case,
        "points",
        mean - set_point,
        mean=mean,
        deviation=deviation,
        worst_stall_ms=told["worst_ns"] / MS,
    )


async def shares(mode: CoreMode, kernel_ns: int, promised: tuple[int, ...]) -> None:
    """All are busy all the time: each gets what it was promised."""
    async with machine() as made:
        length_ms = 1000 * (SETTLING_S + MEASURED_S)
        tenants = [
            await Busy.start(made, made.add(percent, mode), "kernel", kernel_ns, length_ms)
            for percent in promised
        ]
        for tenant in tenants:
            tenant.begin()
        told = [await tenant.told() for tenant in tenants]
    name = "/".join(map(str, promised))
    for percent, each in zip(promised, told, strict=True):
        case = f"{mode.name.lower()} {name}, {kernel_ns / MS:g} ms kernels, {percent} %"
        print_share(case, each, percent, SETTLING_S, SETTLING_S + MEASURED_S)


def waited_ms(told: dict, set_point: float) -> float:
    """How long an owner that is back waits until it has its share, over the next while."""
    slots = percents(told, 0, 10_000)
    width = WINDOW_MS // SLOT_MS
    for first in range(len(slots) - width + 1):
        if statistics.fmean(slots[first : first + width]) >= set_point - TOLERATED_POINTS:
            return first * SLOT_MS
    return float("inf")


async def lending(kernel_ns: int, borrower: int, owner: int) -> None:
    """The owner is idle, then back."""
    async with machine() as made:
        owns = made.add(owner, CoreMode.LEND)
        back = await Busy.start(made, owns, "deep", kernel_ns, 5000, warm=20)
        lends = made.add(borrower, CoreMode.LEND)
        lent = await Busy.start(made, lends, "kernel", kernel_ns, 10_000)
        lent.begin()
        await asyncio.sleep(5)
        back.begin()
        told_back, told_lent = await back.told(), await lent.told()
    case = f"lend {borrower}/{owner}, {kernel_ns / MS:g} ms kernels"
    print_share(f"{case}, owner idle", told_lent, 100, 2, 5)
    print_share(f"{case}, owner back", told_lent, borrower, 7, 10)
    print_share(f"{case}, owner's own share", told_back, owner, 1, 5)
    report("bench-tenants", f"{case}, taken back", "ms", waited_ms(told_back, owner))


async def weights(*each: int) -> None:
    """What was promised to nobody goes to who wants it, by weight."""
    promised, length_ms = 20, 1000 * (SETTLING_S + MEASURED_S)
    async with machine() as made:
        tenants = [
            await Busy.start(
                made, made.add(promised, CoreMode.LEND, weight=weight), "kernel", MS, length_ms
            )
            for weight in each
        ]
        for tenant in tenants:
            tenant.begin()
        told = [await tenant.told() for tenant in tenants]
    left = 100 - promised * len(each)
    for weight, one in zip(each, told, strict=True):
        due = promised + left * weight / sum(each)
        case = f"lend by weight {'/'.join(map(str, each))}, {promised} % promised, {weight}"
        print_share(case, one, due, SETTLING_S, SETTLING_S + MEASURED_S)


async def priority() -> None:
    """A high one that is busy, and a low one that keeps its floor."""
    async with machine() as made:
        low = await Busy.start(
            made, made.add(0, CoreMode.PRIORITY, priority=1), "kernel", MS, 11_000
        )
        high = await Busy.start(
            made, made.add(0, CoreMode.PRIORITY, priority=0), "kernel", MS, 6000
        )
        low.begin()
        await asyncio.sleep(5)
        high.begin()
        told_high, told_low = await high.told(), await low.told()
    print_share("priority, low, alone", told_low, 100, 3, 5)
    print_share("priority, low, high is busy", told_low, 5, 7, 10)
    print_share("priority, high", told_high, 95, 2, 5)


async def run() -> None:
    """Print a line per case."""
    for promised in SHARES:
        for kernel_ns in KERNELS_NS:
            await shares(CoreMode.HARD, kernel_ns, promised)
        await shares(CoreMode.LEND, MS, promised)
    for borrower, owner in ((30, 70), (50, 50)):
        for kernel_ns in (MS, 10 * MS):
            await lending(kernel_ns, borrower, owner)
    await weights(1, 3)
    await priority()


def main() -> None:
    """Run in a loop."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
