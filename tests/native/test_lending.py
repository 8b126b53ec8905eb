"""The library and the daemon's lender, which runs by itself here, on the host's clock.

What each gets is in `test_lockstep`, where the clock is the tests' own.
"""

import asyncio
import contextlib
import json
import statistics
import time

import pytest

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.services import running
from hamid.hooks.abi.contract import LIVE_PAGE_NAME, LIVE_STALE_NS
from hamid.hooks.abi.live import HEARTBEAT_WORD, WORD, rate_word
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page
from hamid.hooks.lending import ContainerDirs, Lender
from hamid.nvml.fake import FakeNvml
from tests.native.container import CARD

pytestmark = pytest.mark.native

MS = 1_000_000
OVER_POINTS = 4


def lend(container, percent: int, mode: CoreMode = CoreMode.LEND) -> None:
    device = DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=percent)
    limits = ContainerLimits(devices=(device,), priority=1, generation=1, mode=mode)
    container.write_page(encode_control_page(limits))


@contextlib.asynccontextmanager
async def lender(container):
    """A lender that looks after the container while the block lasts."""
    dirs = {"it": ContainerDirs(limits=container.limits_dir, usage=container.usage_dir)}
    thread = OneThread(name="lender")
    keeper = Lender(
        directories=lambda: dirs,
        nvml=FakeNvml(),
        thread=thread,
        clock_ns=time.monotonic_ns,
    )
    async with running(keeper):
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

    assert percent_once_settled(said) > 50


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
