import asyncio
from dataclasses import dataclass, field

import pytest

from hamid.aiokit.services import Background, running
from hamid.errors import ServiceEnded


@dataclass
class Endless:
    """Runs until cancelled, and notes what happened in which order."""

    name: str
    events: list[str] = field(default_factory=list)

    async def run(self):
        self.events.append(f"{self.name} started")
        try:
            await asyncio.Event().wait()
        finally:
            self.events.append(f"{self.name} stopped")


@dataclass
class Failing:
    name: str = "failing"

    async def run(self):
        await asyncio.sleep(0)
        raise ValueError("broken")


@dataclass
class Returning:
    name: str = "returning"

    async def run(self):
        await asyncio.sleep(0)


async def together(*services):
    async with running(*services):
        await asyncio.Event().wait()


async def test_a_failing_service_ends_all_of_them():
    endless = Endless("endless")

    with pytest.raises(ExceptionGroup) as caught:
        await together(endless, Failing())

    assert endless.events == ["endless started", "endless stopped"]
    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError)
    assert error.__notes__ == ["in service 'failing'"]


async def test_a_service_that_returns_ends_all_of_them():
    endless = Endless("endless")

    with pytest.raises(ExceptionGroup) as caught:
        await together(endless, Returning())

    assert endless.events == ["endless started", "endless stopped"]
    assert caught.group_contains(ServiceEnded, match="'returning' returned")


async def test_cancellation_stops_all_services_and_passes_through():
    services = [Endless("one"), Endless("other")]
    task = asyncio.get_running_loop().create_task(together(*services))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert all(service.events[-1].endswith("stopped") for service in services)


async def test_a_services_task_bears_its_name():
    async with running(Endless("pod-watch")):
        assert "pod-watch" in {task.get_name() for task in asyncio.all_tasks()}


async def test_services_run_for_as_long_as_the_block_and_stop_in_reverse_order():
    events = []

    async with running(Endless("outer", events)):
        await asyncio.sleep(0)
        async with running(Endless("inner", events)):
            await asyncio.sleep(0)
        events.append("between")

    assert events == [
        "outer started",
        "inner started",
        "inner stopped",
        "between",
        "outer stopped",
    ]


async def test_a_failing_service_cancels_the_block():
    async def block():
        async with running(Failing()):
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await block()

    assert caught.group_contains(ValueError)


async def test_a_failing_block_stops_the_services_and_keeps_its_error():
    endless = Endless("endless")

    async def block():
        async with running(endless):
            await asyncio.sleep(0)
            raise LookupError("ours")

    with pytest.raises(ExceptionGroup) as caught:
        await block()

    assert caught.group_contains(LookupError)
    assert endless.events == ["endless started", "endless stopped"]


async def test_a_background_task_runs_and_can_be_awaited():
    done = []

    async def work():
        done.append("work")

    async with Background() as background:
        await background.start(work(), name="work")

    assert done == ["work"]


async def test_background_tasks_that_still_run_are_cancelled_at_the_end():
    endless = Endless("endless")

    async with Background() as background:
        task = background.start(endless.run(), name="endless")
        await asyncio.sleep(0)

    assert task.cancelled()
    assert endless.events == ["endless started", "endless stopped"]


async def test_a_failing_background_task_takes_its_owner_down():
    async def owner():
        async with Background() as background:
            background.start(Failing().run(), name="failing")
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await owner()

    assert caught.group_contains(ValueError)
