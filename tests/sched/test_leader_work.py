"""What only the leader does begins and ends with its terms; in virtual time."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from hamid.aiokit.services import running
from hamid.kube.fake import FakeApi, FakeKube, Fault, FaultKind
from hamid.sched.leader_work import LeaderWork
from tests.sched.electors import SETTINGS, lease_of, make_timed


@dataclass
class Work:
    """Notes when it runs."""

    name: str = "work"
    is_running: bool = False
    starts: int = 0

    async def run(self):
        self.is_running = True
        self.starts += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False


@asynccontextmanager
async def leading():
    """One replica that leads, and works."""
    api, work = FakeApi(), Work()
    elector = make_timed(api, "a")
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
        assert work.is_running
        yield api, elector, work


@pytest.mark.looptime
async def test_leader_only_work_has_stopped_before_the_lease_is_released():
    order = []

    class Watching(FakeKube):
        async def replace(self, resource, body, **kwargs):
            if not body["spec"]["holderIdentity"]:
                order.append(("released", work.is_running))
            return await super().replace(resource, body, **kwargs)

    async with leading() as (api, elector, work):
        elector.kube = Watching(api=api)

    assert order == [("released", False)]
    assert (await lease_of(api))["spec"]["holderIdentity"] == ""


@pytest.mark.looptime
async def test_a_released_lease_is_taken_within_a_retry_period():
    api = FakeApi()
    loop = asyncio.get_running_loop()
    follower = make_timed(api, "b")
    async with running(make_timed(api, "a")):
        await asyncio.sleep(0.1)
        keeper = running(follower)
        await keeper.__aenter__()
        await asyncio.sleep(10)
        assert not follower.may_act()
    left_at_s = loop.time()

    await follower._leads.wait_for(bool)

    assert loop.time() - left_at_s <= SETTINGS.retry_period_s * 1.2
    await keeper.__aexit__(None, None, None)


@pytest.mark.looptime
async def test_work_stops_when_the_lease_cannot_be_renewed_and_starts_anew_when_it_can():
    async with leading() as (api, _, work):
        api.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=None, verb="update"))
        await asyncio.sleep(12)
        assert not work.is_running
        api.faults.clear()
        await asyncio.sleep(5)
        assert work.is_running

    assert work.starts == 2


@pytest.mark.looptime
async def test_a_renewal_that_hangs_leaves_time_for_another():
    """The API server behind the connection has died without a word; another one is there."""
    async with leading() as (api, elector, work):
        elector.kube = FakeKube(api=api).within(SETTINGS.request_deadline_s)
        api.faults.add(Fault(kind=FaultKind.SILENCE, verb="update"))

        await asyncio.sleep(30)

        assert elector.may_act()

    assert work.starts == 1


@pytest.mark.looptime
async def test_work_stops_though_the_renewing_loop_is_stuck():
    async with leading() as (api, _, work):
        api.faults.add(Fault(kind=FaultKind.DELAY, delay_s=3_600, times=None, verb="update"))

        await asyncio.sleep(12)

        assert not work.is_running


@pytest.mark.looptime
async def test_work_starts_anew_though_the_renewal_that_came_too_late_for_it_was_done():
    """The API server is back just before the deadline, and answers just after it."""
    async with leading() as (api, elector, work):
        api.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=None, verb="update"))
        await asyncio.sleep(6)
        api.faults.clear()
        api.faults.add(Fault(kind=FaultKind.DELAY, delay_s=2.5, verb="update"))
        await asyncio.sleep(3.4)
        assert not work.is_running

        await asyncio.sleep(5)

        assert elector.may_act()
        assert work.is_running

    assert work.starts == 2


@pytest.mark.looptime
async def test_work_starts_anew_though_the_lease_is_lost_and_taken_in_one_step():
    async with leading() as (api, elector, work):
        api.faults.add(Fault(kind=FaultKind.DELAY, delay_s=9.0, verb="update"))

        await asyncio.sleep(20)

        assert elector.may_act()
        assert work.is_running

    assert work.starts == 2
