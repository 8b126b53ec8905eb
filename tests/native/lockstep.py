"""The library, the simulated device and the daemon's lender on one clock, which no host's speed moves.

Time stands still until all who live by it wait: the tenants for the device, the lender for its next look. So
how late a look comes is what a test says, and everything comes out the same on every machine.
"""

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

from hamid.aiokit.blocking import OneThread
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page
from hamid.hooks.lending import ContainerDirs, Lender
from hamid.model.device import DeviceUuid
from hamid.nvml.fake import FakeNvml
from hamid.nvml.port import ProcessLoad
from tests.native.container import CARD, Container

MS = 1_000_000
LOOK_NS = 20 * MS
SAMPLE_NS = 200 * MS
SLOT_MS = 20
BEGIN_NS = 1000 * MS
"""The clock begins at nothing, which would pass for a moment ago."""


class Busy:
    """A tenant that wants all of the device: what it got in each slot of the clock's time."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.begun_ns = 0
        self.worst_ns = 0
        """Its longest launch."""
        self.percents: list[float] = []
        """By slots of `SLOT_MS`, from when the clock began on."""

    async def read(self) -> None:
        """Take what it said in the end."""
        out, _ = await self.process.communicate()
        said = json.loads(out)
        self.begun_ns, self.worst_ns = said["from_ns"], said["worst_ns"]
        slots = [gpu_ns / (SLOT_MS * MS / 100) for gpu_ns in said["seconds"]]
        self.percents = [0.0] * round(self.begun_ns / MS / SLOT_MS) + slots

    def between(self, from_ns: int, until_ns: int) -> float:
        """Percent of the device that it got in this time."""
        slots = self.percents[-(-from_ns // (SLOT_MS * MS)) : until_ns // (SLOT_MS * MS)]
        return sum(slots) / len(slots)


class Lockstep:
    """A node with its lender; made by `lockstep`.

    Args:
        process: the program that waits on the clock for us.
        env: of the simulated driver, the same for all.
        floor_percent: of lower priorities.
    """

    def __init__(
        self,
        process,
        stack,
        build: Path,
        directory: Path,
        *,
        env: dict[str, str],
        floor_percent: int,
    ):
        self.now_ns = 0
        self._process = process
        self._stack = stack
        self._build = build
        self._directory = directory
        self._env = env
        self._dirs: dict[str, ContainerDirs] = {}
        self._busy: list[Busy] = []
        self.nvml = FakeNvml()
        self._sampled_ns = 0
        self.lender = Lender(
            directories=lambda: self._dirs,
            nvml=self.nvml,
            thread=stack.enter_context(contextlib.closing(OneThread(name="lender"))),
            clock_ns=lambda: self.now_ns,
            floor_percent=floor_percent,
        )

    def container(self, name: str) -> Container:
        """Another container on the card, with no limits yet."""
        directory = self._directory / name
        directory.mkdir()
        fresh = self._stack.enter_context(Container(self._build, directory))
        fresh.env |= self._env
        self._dirs[name] = ContainerDirs(limits=fresh.limits_dir, usage=fresh.usage_dir)
        return fresh

    async def sleep(self, ns: int) -> None:
        """Let so much time pass, without a look."""
        self._process.stdin.write(f"{ns}\n".encode())
        said = (await self._process.stdout.readline()).split()
        self.now_ns = int(said[0])
        self.nvml.load(
            *(
                ProcessLoad(device_uuid=DeviceUuid(CARD), pid=int(pid), gpu_percent=float(percent))
                for pid, percent in (word.split(b":") for word in said[1:])
            )
        )

    async def run(self, ns: int, *, late_ns: int = 0) -> None:
        """Let so much time pass, with a look each `LOOK_NS`; the first may come later than that."""
        until_ns = self.now_ns + ns
        await self.sleep(late_ns)
        while self.now_ns < until_ns:
            await self.lender.step()
            if self.now_ns - self._sampled_ns >= SAMPLE_NS:
                self._sampled_ns = self.now_ns
                await self.lender.sample()
            await self.sleep(LOOK_NS)

    async def begin(
        self, container: Container, milliseconds: int, kernel_ns: int = MS, *, how: str = "kernel"
    ) -> Busy:
        """Have a tenant begin, at this moment."""
        process = await asyncio.create_subprocess_exec(
            str(container.build / "bin/launch"),
            *(how, str(kernel_ns), str(milliseconds), "132", str(SLOT_MS)),
            env=container.environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert await process.stdout.readline() == b"ready\n"
        process.stdin.write(b"\n")
        busy = Busy(process)
        self._busy.append(busy)
        return busy

    async def end(self) -> None:
        """Run until no tenant is left."""
        while any(busy.process.returncode is None for busy in self._busy):
            await self.run(LOOK_NS)
        for busy in self._busy:
            await busy.read()


def limit(
    container: Container,
    percent: int,
    mode: CoreMode,
    *,
    weight: int = 1,
    priority: int = 1,
    generation: int = 1,
) -> None:
    """Promise so much of the card to a container."""
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=percent, weight=weight)
    limits = ContainerLimits(devices=(device,), priority=priority, generation=generation, mode=mode)
    container.write_page(encode_control_page(limits))


@contextlib.asynccontextmanager
async def lockstep(build: Path, *, floor_percent: int = 5, **env: str):
    """A node on a clock of its own, which has been running for a while."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        (directory / "clock").mkdir()
        place = stack.enter_context(Container(build, directory / "clock"))
        env |= {"HAMID_SIM_STATE": str(directory / "state"), "HAMID_SIM_CLOCK": "shared"}
        process = await asyncio.create_subprocess_exec(
            str(build / "bin/pace"),
            env=place.env | env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            node = Lockstep(process, stack, build, directory, env=env, floor_percent=floor_percent)
            await node.sleep(BEGIN_NS)
            yield node
        finally:
            process.kill()
            await process.wait()
