import asyncio

import pytest

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.nvml.errors import DriverStuck, DriverUnavailable
from hamid.nvml.fake import FakeNvml
from hamid.nvml.port import DeviceEvent, EventKind
from hamid.plugin.health import GIVE_UP_S, DeviceView, EventListener, HealthPoller
from tests.builders import uuid
from tests.plugin.values import nvml_device

ONE, TWO = uuid(1), uuid(2)
DOWN = DriverUnavailable("no driver is loaded", hint="load it")


class World:
    """Two cards, looked at by a poller, with a clock that is set by hand."""

    def __init__(self):
        self.nvml = FakeNvml([nvml_device(1), nvml_device(2)])
        self.now_s = 0.0
        self.poller = HealthPoller(
            nvml=self.nvml,
            view=Latest(DeviceView()),
            clock=lambda: self.now_s,
            interval_s=5,
            recovery_s=60,
        )
        self.listener = EventListener(nvml=self.nvml, poller=self.poller, wait_s=0)

    @property
    def view(self):
        return self.poller.view.get()

    async def look(self, *, at_s=0.0):
        """What is healthy after a look at this time."""
        self.now_s = at_s
        await self.poller.step()
        return self.healthy()

    def healthy(self):
        return {uuid for uuid, health in self.view.health.items() if health.is_healthy}

    async def emit(self, kind, *, device_uuid=ONE, data=0):
        self.nvml.emit(DeviceEvent(device_uuid=device_uuid, kind=kind, data=data))
        self.listener.wait_s = 1
        assert await self.listener.step()


@pytest.fixture
def world():
    return World()


async def test_a_look_publishes_what_the_cards_are_how_they_are_and_how_busy(world):
    world.nvml.use(TWO, gpu_percent=70)

    assert await world.look() == {ONE, TWO}
    assert [device.device_uuid for device in world.view.devices] == [ONE, TWO]
    assert [sample.gpu_percent for sample in world.view.samples] == [0, 70]


async def test_a_lost_card_never_hurts_its_siblings(world, assert_logged):
    await world.look()
    world.nvml.lose(ONE)

    assert await world.look() == {TWO}
    assert [device.device_uuid for device in world.view.devices] == [ONE, TWO]
    assert "lost" in world.view.health[ONE].reason
    assert_logged("device unhealthy", device_uuid=ONE, log_level="error")


async def test_a_card_that_was_lost_and_is_back_is_healthy_again(world, assert_logged):
    world.nvml.lose(ONE)
    await world.look(at_s=0)
    world.nvml.mend(ONE)

    assert await world.look(at_s=59) == {TWO}
    assert await world.look(at_s=60) == {ONE, TWO}
    assert_logged("device healthy again", device_uuid=ONE, down_s=60)


async def test_a_new_card_is_found(world):
    await world.look()
    world.nvml.plug(nvml_device(3))

    assert await world.look() == {ONE, TWO, uuid(3)}


async def test_an_xid_of_the_card_is_seen_at_once_and_passes(world):
    await world.look()

    await world.emit(EventKind.XID, data=79)

    assert world.healthy() == {TWO}
    assert "XID 79" in world.view.health[ONE].reason
    assert await world.look(at_s=59) == {TWO}
    assert await world.look(at_s=60) == {ONE, TWO}


async def test_an_xid_that_comes_again_starts_the_wait_anew(world):
    await world.look()
    await world.emit(EventKind.XID, data=48)
    world.now_s = 50
    await world.emit(EventKind.XID, data=48)

    assert await world.look(at_s=109) == {TWO}
    assert await world.look(at_s=110) == {ONE, TWO}


@pytest.mark.parametrize(
    ("kind", "data", "device_uuid"),
    [
        pytest.param(EventKind.XID, 31, ONE, id="an application's own XID"),
        pytest.param(EventKind.OTHER, 4, ONE, id="another event"),
        pytest.param(EventKind.XID, 79, None, id="an XID of a card that is not ours"),
    ],
)
async def test_an_event_makes_no_card_unhealthy(world, kind, data, device_uuid):
    await world.look()

    await world.emit(kind, data=data, device_uuid=device_uuid)

    assert world.healthy() == {ONE, TWO}


async def test_a_card_that_was_lost_for_a_moment_is_not_trusted_at_once(world):
    await world.look()

    await world.emit(EventKind.LOST)

    assert world.healthy() == {TWO}


async def test_a_driver_that_does_not_answer_makes_all_unhealthy_until_it_is_back(world, logs):
    world.nvml.use(ONE, gpu_percent=70)
    await world.look()
    world.nvml.fail_driver(DOWN)

    assert await world.look(at_s=10) == set()
    assert await world.look(at_s=20) == set()
    assert len(world.view.devices) == 2
    assert world.view.samples == ()

    world.nvml.fail_driver(None)
    assert await world.look(at_s=30) == set()
    assert await world.look(at_s=80) == {ONE, TWO}
    said = [(line["event"], line.get("down_s")) for line in logs if "driver" in line["event"]]
    assert said == [("driver not answering", None), ("driver answers again", 20)]


async def test_a_driver_that_is_down_from_the_start_shows_no_card_and_is_named(
    world, assert_logged
):
    world.nvml.fail_driver(DOWN)

    assert await world.look() == set()
    assert not world.view.is_known
    assert_logged("driver not answering", reason="no driver is loaded", hint="load it")

    world.nvml.fail_driver(None)
    assert await world.look() == {ONE, TWO}
    assert world.view.is_known


async def test_a_driver_that_does_not_come_back_has_the_daemon_begin_anew(world):
    await world.look()
    world.nvml.fail_driver(DOWN)
    await world.look(at_s=100)
    await world.look(at_s=100 + GIVE_UP_S - 1)

    with pytest.raises(DriverUnavailable, match=r"not answered for 600 s: no driver is loaded"):
        await world.look(at_s=100 + GIVE_UP_S)


async def test_a_driver_that_hangs_is_waited_for(world):
    await world.look()
    world.nvml.fail_driver(DriverStuck("it hangs", hint="reboot"))
    await world.look(at_s=100)

    assert await world.look(at_s=100 + 2 * GIVE_UP_S) == set()


async def test_a_driver_without_a_card_is_known_to_have_none(world):
    world.poller.nvml = FakeNvml()

    await world.look()

    assert world.view == DeviceView(is_known=True)


async def test_cards_that_could_be_listed_and_not_sampled_are_not_healthy():
    class Unsampled(FakeNvml):
        async def sample_devices(self):
            raise DOWN

    world = World()
    world.poller.nvml = Unsampled([nvml_device(1)])

    assert await world.look() == set()
    assert world.view.health.keys() == {ONE}


async def test_looks_that_overlap_do_not_undo_each_other():
    class Slow(FakeNvml):
        async def sample_devices(self):
            samples = await super().sample_devices()
            if self.gate is not None:
                gate, self.gate = self.gate, None
                await gate.wait()
            return samples

    world = World()
    nvml = world.poller.nvml = world.listener.nvml = world.nvml = Slow([nvml_device(1)])
    nvml.gate = None
    await world.look()
    gate = nvml.gate = asyncio.Event()

    async with asyncio.TaskGroup() as group:
        group.create_task(world.poller.step())  # has sampled, and is held up
        await asyncio.sleep(0)
        await world.emit(EventKind.XID, data=79)
        gate.set()

    assert world.healthy() == set()


async def test_a_driver_without_events_is_asked_again_later(world):
    world.nvml.fail_driver(DOWN)

    assert not await world.listener.step()


async def test_no_event_is_no_reason_to_look(world):
    assert await world.listener.step()
    assert world.view == DeviceView()


@pytest.mark.looptime
async def test_cards_are_looked_at_steadily_and_when_something_happens(looptime):
    world = World()
    world.listener.wait_s = 5
    async with running(world.poller, world.listener):
        await world.poller.view.wait_for(lambda view: len(view.health) == 2)
        assert looptime == 0
        await asyncio.sleep(1)
        world.nvml.emit(DeviceEvent(device_uuid=ONE, kind=EventKind.XID, data=79))
        await world.poller.view.wait_for(lambda view: not view.health[ONE].is_healthy)
        assert looptime < 1.2
        world.nvml.lose(TWO)
        world.nvml.fail_driver(DOWN)
        await world.poller.view.wait_for(lambda view: not view.health[TWO].is_healthy)
        assert looptime <= 5
