"""The library and the daemon's lender together, on the simulated driver and the host's clock."""

import asyncio
import contextlib
import json
import statistics
import time

import pytest

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.services import running
from hamid.aiokit.ticker import every
from hamid.hooks.abi.contract import LIVE_PAGE_NAME, LIVE_STALE_NS, USAGE_PAGE_NAME
from hamid.hooks.abi.live import HEARTBEAT_WORD, WORD, decode_live_page, rate_word
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page
from hamid.hooks.lending import ContainerDirs, Lender, LoadSampler
from hamid.nvml.client import NvmlClient
from hamid.nvml.fake import FakeNvml
from tests.native.container import CARD, Container

pytestmark = pytest.mark.native

MS = 1_000_000
OVER_POINTS = 4
WEIGHT_POINTS = 8


def lend(
    container,
    percent: int,
    mode: CoreMode = CoreMode.LEND,
    weight: int = 1,
    *,
    generation: int = 1,
) -> None:
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=percent, weight=weight)
    limits = ContainerLimits(devices=(device,), priority=1, generation=generation, mode=mode)
    container.write_page(encode_control_page(limits))


@contextlib.asynccontextmanager
async def lender(*containers, nvml=None):
    """A lender that looks after the containers while the block lasts."""
    dirs = {
        str(each.limits_dir): ContainerDirs(limits=each.limits_dir, usage=each.usage_dir)
        for each in containers
    }
    thread = OneThread(name="lender")
    keeper = Lender(
        directories=lambda: dirs,
        nvml=nvml or FakeNvml(),
        thread=thread,
        clock_ns=time.monotonic_ns,
    )
    samplers = [LoadSampler(lender=keeper)] if nvml else []
    async with running(keeper, *samplers):
        yield
    thread.close()


def stop_the_heart(container) -> None:
    with (container.limits_dir / LIVE_PAGE_NAME).open("r+b") as page:
        page.seek(WORD * HEARTBEAT_WORD)
        page.write((time.monotonic_ns() - LIVE_STALE_NS).to_bytes(WORD, "little"))


async def told(container, milliseconds: int, kernel_ns: int = MS) -> dict:
    """What a program that wants all of the device says in the end."""
    process = await asyncio.create_subprocess_exec(
        str(container.build / "bin/launch"),
        *("kernel", str(kernel_ns), str(milliseconds)),
        env=container.environment({"HAMID_TEST_LOOK_EVERY_MS": "50"}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(b"\n")
    return json.loads(out.splitlines()[-1])


async def percent_of(container, milliseconds: int) -> float:
    """What it gets of the device."""
    said = await told(container, milliseconds)
    return 100 * said["gpu_ns"] / said["elapsed_ns"]


LONG_NS = 20 * MS
"""Two such kernels are queued at any time: so the device is busy though the host comes late."""
SETTLED_S = 2


def percent_once_settled(said: dict) -> float:
    """Once it is known that it is busy, and what its kernels cost."""
    return statistics.fmean(gpu_ns / (10 * MS) for gpu_ns in said["seconds"][SETTLED_S:])


async def test_a_container_that_lends_uses_what_nobody_wants(container):
    lend(container, 10)
    async with lender(container):
        said = await told(container, 4000, LONG_NS)

    assert percent_once_settled(said) > 90


@pytest.fixture
async def nvml(container, monkeypatch):
    """The driver's figures, by which it is known who has the device of those who share it."""
    for name in ("HAMID_SIM_DEVICES", "HAMID_SIM_STATE"):
        monkeypatch.setenv(name, container.env[name])
    library = container.build / "sim/libnvidia-ml.so.1"
    async with NvmlClient.open(library_path=library) as client:
        yield client


@pytest.fixture
def other(container, native_build, tmp_path):
    """Another container on the same card."""
    (tmp_path / "other").mkdir()
    with Container(native_build, tmp_path / "other") as fresh:
        fresh.env["HAMID_SIM_STATE"] = container.env["HAMID_SIM_STATE"]
        yield fresh


async def test_what_was_promised_to_nobody_goes_by_weight(container, other, nvml):
    lend(container, 20, weight=1)
    lend(other, 20, weight=3)
    async with lender(container, other, nvml=nvml), asyncio.TaskGroup() as group:
        light, heavy = (group.create_task(told(each, 6000, LONG_NS)) for each in (container, other))

    assert percent_once_settled(light.result()) == pytest.approx(35, abs=WEIGHT_POINTS)
    assert percent_once_settled(heavy.result()) == pytest.approx(65, abs=WEIGHT_POINTS)


async def until(is_so) -> None:
    async with asyncio.timeout(30):
        async for _ in every(0.01):
            if is_so():
                return


async def test_what_was_lent_goes_back_when_its_owner_is_back(container, other, nvml):
    lend(container, 30)
    lend(other, 70)
    live = container.limits_dir / LIVE_PAGE_NAME

    def has_all() -> bool:
        return live.exists() and decode_live_page(live.read_bytes()).rate_by_uuid[0][1] >= 800

    async with lender(container, other, nvml=nvml), asyncio.TaskGroup() as group:
        group.create_task(told(container, 10_000, LONG_NS))
        await until(has_all)
        owner = group.create_task(told(other, 5000, LONG_NS))

    # Without a word from the lender each would get half of a device that is shared in turns.
    assert percent_once_settled(owner.result()) > 60


@pytest.mark.parametrize(
    ("before", "after"), [(CoreMode.HARD, CoreMode.LEND), (CoreMode.LEND, CoreMode.HARD)]
)
async def test_a_mode_that_changes_is_seen_by_who_runs(container, before, after):
    lend(container, 10, before)
    page = container.usage_dir / USAGE_PAGE_NAME
    async with lender(container), asyncio.TaskGroup() as group:
        tenant = group.create_task(told(container, 7000, LONG_NS))
        await until(page.exists)
        lend(container, 10, after, generation=2)

    got = statistics.fmean(gpu_ns / (10 * MS) for gpu_ns in tenant.result()["seconds"][3:])
    assert (got > 50) == (after is CoreMode.LEND)
    assert after is CoreMode.LEND or got < 10 + OVER_POINTS


async def test_when_the_lender_is_gone_its_cap_holds(container):
    lend(container, 10)
    async with lender(container):
        await percent_of(container, 1000)
    stop_the_heart(container)

    assert await percent_of(container, 2000) < 10 + OVER_POINTS


@pytest.mark.parametrize("mode", [CoreMode.LEND, CoreMode.PRIORITY])
async def test_when_the_lender_is_gone_who_has_no_core_limit_has_the_card(container, mode):
    """As in HAMi: every mode is the hard one then, and that holds nobody to what was not asked for."""
    lend(container, 0, mode)
    async with lender(container):
        await percent_of(container, 500)
    live = container.limits_dir / LIVE_PAGE_NAME
    page = bytearray(live.read_bytes())
    page[WORD * rate_word(0) : WORD * (rate_word(0) + 1)] = (100).to_bytes(WORD, "little")
    live.write_bytes(page)
    stop_the_heart(container)

    assert await percent_of(container, 1000) > 50


async def test_a_hard_cap_is_kept_whatever_is_idle(container):
    lend(container, 10, CoreMode.HARD)
    async with lender(container):
        got = await percent_of(container, 2000)

    assert got < 10 + OVER_POINTS
