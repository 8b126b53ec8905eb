"""The lender on containers' files: what they claim comes out as rates in their live pages."""

import asyncio
import os
import threading

import pytest
import structlog

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.services import Background, running
from hamid.hooks.abi.budgets import USAGE_BUDGET, USAGE_BUDGETS_OFFSET
from hamid.hooks.abi.contract import CONTROL_PAGE_NAME, LIVE_PAGE_NAME, USAGE_PAGE_NAME
from hamid.hooks.abi.live import decode_live_page
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit, encode_control_page
from hamid.hooks.lending import (
    LOOK_AGAIN_NS,
    ContainerDirs,
    DeviceTerms,
    Lender,
    LoadSampler,
    MemoryWeigher,
)
from hamid.hooks.whose import MappedPages
from hamid.nvml.errors import DriverUnavailable
from hamid.nvml.fake import FakeNvml
from hamid.nvml.port import ProcessLoad, ProcessMemory
from tests.hooks.abi.test_pages import CARD
from tests.hooks.abi.test_usage import usage_page
from tests.plugin.values import nvml_device

MS = 1_000_000
SECOND = 1000 * MS


class Container:
    def __init__(self, directory, percent: int, mode: CoreMode, **limits):
        self.directory = directory
        directory.mkdir()
        self.page = bytearray(usage_page(names=(CARD.encode(),)))
        self.limit(percent, mode, **limits)
        self.claim(charged=0, wanted=0)

    def limit(self, percent, mode=CoreMode.LEND, *, generation=1, priority=1, weight=1):
        limits = ContainerLimits(
            devices=(
                DeviceLimit(
                    device_uuid=CARD, memory_bytes=None, core_percent=percent, weight=weight
                ),
            ),
            priority=priority,
            generation=generation,
            mode=mode,
        )
        beside = self.directory / "new"
        beside.write_bytes(encode_control_page(limits))
        beside.rename(self.directory / CONTROL_PAGE_NAME)

    def claim(self, *, wanted: int, charged: int = 0, waited: int = 0) -> None:
        USAGE_BUDGET.pack_into(self.page, USAGE_BUDGETS_OFFSET, 0, charged, wanted, waited, b"")
        (self.directory / USAGE_PAGE_NAME).write_bytes(self.page)

    @property
    def live(self):
        return decode_live_page((self.directory / LIVE_PAGE_NAME).read_bytes())

    @property
    def rate(self) -> int:
        return self.live.rate_by_uuid[0][1]


class Node:
    def __init__(self, directory):
        self.directory = directory
        self.containers = {}
        self.now_ns = self.sampled_ns = 1000 * SECOND
        self.nvml = FakeNvml((nvml_device(device_uuid=CARD),))
        self.thread = OneThread(name="lender")
        self.proc = directory / "proc"
        self.proc.mkdir()
        self.lender = Lender(
            directories=self.directories,
            nvml=self.nvml,
            thread=self.thread,
            clock_ns=lambda: self.now_ns,
            pages=MappedPages(proc=self.proc),
        )

    def directories(self):
        return {
            name: ContainerDirs(limits=c.directory, usage=c.directory)
            for name, c in self.containers.items()
        }

    def add(self, name: str, percent: int, mode: CoreMode = CoreMode.LEND, **limits) -> Container:
        self.containers[name] = Container(self.directory / name, percent, mode, **limits)
        return self.containers[name]

    def run_process(self, pid: int, container: Container) -> None:
        found = (container.directory / USAGE_PAGE_NAME).stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x} {found.st_ino}"
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "maps").write_text(f"0-1 rw-s 00000000 {place} /x/usage.page\n")

    async def step(self, after_ms: int = 20) -> None:
        self.now_ns += after_ms * MS
        if self.now_ns - self.sampled_ns >= 200 * MS:
            self.sampled_ns = self.now_ns
            await self.lender.sample()
        await self.lender.step()


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    for container in node.lender._containers.values():
        container.close()
    node.thread.close()


async def test_who_uses_a_device_for_the_first_time_is_seen_at_the_next_look(node):
    lent, owner = node.add("lent", 30), node.add("owner", 70)
    owner.page = bytearray(usage_page(names=()))
    owner.claim(charged=0, wanted=0)
    await node.step()
    lent.claim(charged=1, wanted=node.now_ns, waited=node.now_ns)
    await node.step()
    assert lent.rate == 1000

    owner.page = bytearray(usage_page(names=(CARD.encode(),)))
    owner.claim(charged=1, wanted=node.now_ns, waited=node.now_ns)
    lent.claim(charged=1, wanted=node.now_ns, waited=node.now_ns)
    await node.step()

    assert lent.rate == 300


async def test_what_is_idle_is_lent_and_taken_back_at_the_next_look(node):
    owner, borrower = node.add("owner", 70), node.add("borrower", 30)
    borrower.claim(wanted=node.now_ns, waited=node.now_ns)
    await node.step()
    lent = borrower.rate
    owner.claim(wanted=node.now_ns)
    await node.step()

    assert (lent, borrower.rate, owner.rate) == (1000, 300, 700)


async def test_the_heart_beats_with_every_look_while_somebody_lends(node):
    container = node.add("a", 30)
    for _ in range(3):
        await node.step()

        assert container.live.heartbeat_ns == node.now_ns


async def test_where_nobody_lends_a_heartbeat_in_a_while_is_enough(node):
    container = node.add("a", 30, CoreMode.HARD)
    await node.step()
    beats = set()
    for _ in range(12):
        await node.step()
        beats.add(container.live.heartbeat_ns)

        assert node.now_ns - container.live.heartbeat_ns <= 120 * MS
    assert len(beats) == 3


async def test_a_hard_cap_is_told_as_it_is(node):
    container = node.add("a", 30, CoreMode.HARD)
    await node.step()

    assert container.rate == 300


async def test_priorities_are_kept(node):
    high = node.add("high", 0, CoreMode.PRIORITY, priority=0)
    low = node.add("low", 0, CoreMode.PRIORITY, priority=1)
    for container in (high, low):
        container.claim(wanted=node.now_ns, waited=node.now_ns)
    await node.step()

    assert (high.rate, low.rate) == (950, 50)


async def test_a_new_container_and_new_limits_are_found(node):
    first = node.add("first", 30)
    await node.step()
    first.limit(40, generation=2)
    second = node.add("second", 20)
    await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert first.live.generation == 2
    assert (first.rate, second.rate) == (400, 200)


async def test_a_container_that_is_gone_is_let_go(node):
    gone = node.add("gone", 70)
    left = node.add("left", 30)
    for container in (gone, left):
        container.claim(wanted=node.now_ns + SECOND, waited=node.now_ns + SECOND)
    await node.step(after_ms=1000)
    with_both = left.rate
    del node.containers["gone"]
    await node.step(after_ms=LOOK_AGAIN_NS // MS)
    left.claim(wanted=node.now_ns, waited=node.now_ns)
    await node.step()

    assert (with_both, left.rate) == (300, 1000)


@pytest.mark.parametrize("what", ["link", "pipe", "directory", "short"])
async def test_what_a_container_puts_in_the_place_of_its_page_says_nothing(node, what):
    container = node.add("a", 30)
    page = container.directory / USAGE_PAGE_NAME
    page.unlink()
    match what:
        case "link":
            page.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(page)
        case "directory":
            page.mkdir()
        case "short":
            page.write_bytes(b"x")
    await node.step()

    assert container.rate == 300


async def seconds(node, container, count: int, *, charged_percent: int) -> None:
    """Let it charge so many percent of the time."""
    began = node.now_ns
    for _ in range(count * 20):
        charged = (node.now_ns - began) * charged_percent // 100
        container.claim(wanted=node.now_ns, waited=node.now_ns, charged=charged + 1)
        await node.step(after_ms=50)


async def test_who_is_charged_more_than_the_driver_sees_gets_more(node):
    container = node.add("a", 30, CoreMode.HARD)
    node.run_process(7, container)
    node.nvml.load(ProcessLoad(device_uuid=CARD, pid=7, gpu_percent=20.0))
    await seconds(node, container, 8, charged_percent=30)

    assert 440 <= container.rate <= 450


async def test_where_processes_are_not_told_all_together_used_no_more_than_the_device(node):
    container = node.add("a", 30, CoreMode.HARD)
    node.nvml.use(CARD, gpu_percent=24)
    await seconds(node, container, 8, charged_percent=30)

    assert 370 <= container.rate <= 380


async def test_what_else_keeps_a_device_busy_is_not_held_against_a_container(node):
    container = node.add("a", 30, CoreMode.HARD)
    node.nvml.use(CARD, gpu_percent=100)
    await seconds(node, container, 4, charged_percent=30)

    assert container.rate == 300


class Asked:
    """Stands for a lender: counts how often it is to ask the driver."""

    def __init__(self, *, is_busy=True):
        self.is_busy = is_busy
        self.count = 0
        self.is_enough = asyncio.Event()

    async def weigh(self) -> None:
        await self.sample()

    async def sample(self) -> None:
        self.count += 1
        if self.count == 3:
            self.is_enough.set()


async def test_the_driver_is_asked_again_and_again_by_a_service_of_its_own():
    asked = Asked()
    async with running(LoadSampler(lender=asked, interval_s=0.001)):
        await asked.is_enough.wait()

    assert asked.count >= 3


@pytest.mark.looptime
async def test_the_driver_is_left_alone_while_no_container_uses_a_device():
    asked = Asked(is_busy=False)
    async with running(LoadSampler(lender=asked)):
        await asyncio.sleep(10)

    assert asked.count == 0


async def test_who_uses_a_device_makes_the_lender_busy_until_it_stops(node):
    container = node.add("a", 30)
    await node.step(500)
    before = node.lender.is_busy
    container.claim(wanted=node.now_ns)
    await node.step()
    meanwhile = node.lender.is_busy
    await node.step(500)

    assert (before, meanwhile, node.lender.is_busy) == (False, True, False)


async def test_what_is_found_while_the_lender_ends_is_closed(node):
    for number in range(50):
        node.add(f"c{number}", 30)
    async with running(node.lender):
        await asyncio.sleep(0)  # the first look has begun, in the thread

    assert node.lender._containers == {}


async def test_without_the_driver_nothing_is_corrected(node):
    container = node.add("a", 30, CoreMode.HARD)
    node.nvml.fail_driver(DriverUnavailable("gone", hint="x"))
    await seconds(node, container, 3, charged_percent=90)

    assert container.rate == 300


async def test_a_container_that_keeps_its_limits_to_itself_is_not_written_to(node):
    container = node.add("a", 0, CoreMode.HARD)
    await node.step()

    assert not (container.directory / LIVE_PAGE_NAME).exists()


async def test_of_several_cards_each_has_its_own_rate(node):
    container = node.add("a", 30)
    limits = ContainerLimits(
        devices=(
            DeviceLimit(device_uuid="GPU-other", memory_bytes=None, core_percent=20),
            DeviceLimit(device_uuid=CARD, memory_bytes=None, core_percent=30),
        ),
        priority=1,
        generation=2,
        mode=CoreMode.LEND,
    )
    (container.directory / CONTROL_PAGE_NAME).write_bytes(encode_control_page(limits))
    container.claim(wanted=node.now_ns, waited=node.now_ns)
    await node.step()

    assert container.live.rate_by_uuid == (("GPU-other", 200), (CARD, 1000))


async def test_what_processes_hold_beyond_what_is_charged_is_told_where_that_counts(node):
    node.lender.weighs_memory = True
    holder, other = node.add("holder", 0, CoreMode.HARD), node.add("other", 0, CoreMode.HARD)
    node.run_process(7, holder)
    node.nvml.use(CARD, processes=(ProcessMemory(pid=7, used_bytes=300),))
    await node.step()
    for _ in range(3):
        await node.lender.weigh()

    assert (holder.live.uncounted_bytes, other.live.uncounted_bytes) == ((300,), (0,))
    await node.step(after_ms=LOOK_AGAIN_NS // MS)
    assert node.lender.terms.get()["holder", CARD] == DeviceTerms(
        rate_percent=None, uncounted_bytes=300
    )


async def test_memory_is_not_weighed_where_nobody_asked_for_it(node):
    container = node.add("a", 30)
    node.run_process(7, container)
    node.nvml.use(CARD, processes=(ProcessMemory(pid=7, used_bytes=300),))
    await node.step()
    for _ in range(3):
        await node.lender.weigh()

    assert container.live.uncounted_bytes == (0,)


async def test_a_driver_that_fails_leaves_what_was_believed_of_memory(node):
    node.lender.weighs_memory = True
    container = node.add("a", 0, CoreMode.HARD)
    node.run_process(7, container)
    node.nvml.use(CARD, processes=(ProcessMemory(pid=7, used_bytes=300),))
    await node.step()
    for _ in range(3):
        await node.lender.weigh()
    node.nvml.fail_driver(DriverUnavailable("gone", hint="none"))

    await node.lender.weigh()

    assert container.live.uncounted_bytes == (300,)


async def test_memory_is_weighed_again_and_again_by_a_service_of_its_own():
    asked = Asked()
    async with running(MemoryWeigher(lender=asked, interval_s=0.001)):
        await asked.is_enough.wait()

    assert asked.count >= 3


async def test_the_rates_of_this_moment_are_told_by_grant_and_device(node):
    node.add("a", 30)
    await node.step()
    await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert node.lender.terms.get() == {
        ("a", CARD): DeviceTerms(rate_percent=30, correction=1.0, uncounted_bytes=0)
    }


async def test_what_each_used_of_the_device_is_told_until_its_page_is_gone(node):
    container = node.add("a", 30)
    node.run_process(7, container)
    node.nvml.load(ProcessLoad(device_uuid=CARD, pid=7, gpu_percent=25.0))
    for _ in range(100):
        container.claim(wanted=node.now_ns)
        await node.step()
    await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert node.lender.terms.get()["a", CARD].used_percent == pytest.approx(25)

    (container.directory / USAGE_PAGE_NAME).unlink()
    for _ in range(3):
        await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert node.lender.terms.get()["a", CARD].used_percent == 0


async def test_a_page_that_cannot_be_kept_is_told_of_once_and_kept_when_it_can_be(node):
    container = node.add("a", 30)
    (container.directory / CONTROL_PAGE_NAME).write_bytes(b"damaged")

    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            await node.step(after_ms=LOOK_AGAIN_NS // MS)
    container.limit(30)
    await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert [entry["event"] for entry in logs] == ["live page not kept"]
    assert container.rate == 300


async def test_limits_that_left_nothing_to_tell_are_read_again_when_they_change(node):
    container = node.add("a", 0, CoreMode.HARD)
    await node.step()
    container.limit(30)

    await node.step(after_ms=LOOK_AGAIN_NS // MS)

    assert container.rate == 300


async def test_a_thread_that_hangs_does_not_keep_the_lender_from_ending(node, monkeypatch):
    monkeypatch.setattr("hamid.hooks.lending.FAREWELL_S", 0.01)
    is_stuck, may_go_on = threading.Event(), threading.Event()

    def hang():
        is_stuck.set()
        may_go_on.wait()

    async with running(node.lender), Background() as background:
        background.start(node.thread.call(hang), name="hang")
        await asyncio.to_thread(is_stuck.wait)
    may_go_on.set()
