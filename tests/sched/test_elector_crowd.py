"""A leader and a thousand followers, in virtual time."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from hamid.codec.standbys import decode_standbys
from hamid.kube.fake import FakeApi, FakeKube
from tests.sched.electors import SETTINGS, lease_of, make_timed


class Crowd:
    """A leader and many followers in virtual time; counts what they read of the lease."""

    def __init__(self, count):
        self.loop = asyncio.get_running_loop()
        self.reads = Counter()
        self.api = FakeApi(clock=self.loop.time)
        crowd = self

        class Counting(FakeKube):
            async def get(self, resource, name, **kwargs):
                crowd.reads[int(crowd.loop.time() - crowd.since_s)] += 1
                return await super().get(resource, name, **kwargs)

        self.since_s = self.loop.time()
        self.electors = [make_timed(self.api, f"node-{n}") for n in range(count)]
        for elector in self.electors:
            elector.kube = Counting(api=self.api, caller=elector.identity)
        self.tasks = {}

    async def start(self):
        for elector in self.electors:
            self.tasks[elector.identity] = asyncio.ensure_future(elector.run())  # noqa: TID251
            await asyncio.sleep(0.1)

    def count_from_now(self):
        self.reads.clear()
        self.since_s = self.loop.time()

    def busiest(self, *, window_s):
        """The most reads a second, as the mean of any window of this length."""
        last = int(self.loop.time() - self.since_s)
        starts = range(max(1, last - window_s + 1))
        sums = (sum(self.reads[s + n] for n in range(window_s)) for s in starts)
        return max(sums) / window_s

    async def kill(self, *identities):
        """As by kill -9: nobody says farewell."""
        for elector in self.electors:
            if elector.identity in identities:
                elector._is_working = True  # a lease that is worked under is not released
                self.tasks[elector.identity].cancel()
        await asyncio.sleep(0)

    def leaders(self):
        return [e.identity for e in self.electors if e.may_act() and not e._is_working]

    async def time_to_new_leader(self):
        began_s = self.loop.time()
        while not self.leaders():  # noqa: ASYNC110 - the time it takes is what we measure
            await asyncio.sleep(0.1)
        return self.loop.time() - began_s

    async def stop(self):
        for task in self.tasks.values():
            task.cancel()
        await asyncio.wait(self.tasks.values())


@asynccontextmanager
async def crowd_of(count):
    """No fixture: those run in real time."""
    made = Crowd(count)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.mark.slow
@pytest.mark.looptime
async def test_a_thousand_followers_read_the_lease_fewer_than_ten_times_a_second():
    async with crowd_of(1_001) as crowd:
        crowd.count_from_now()

        await asyncio.sleep(1_500)

        assert crowd.leaders() == ["node-0"]
        assert crowd.busiest(window_s=1_500) < 5
        assert crowd.busiest(window_s=10) < 10


@pytest.mark.slow
@pytest.mark.looptime
async def test_a_thousand_followers_replace_a_dead_leader_in_a_lease_and_a_retry():
    async with crowd_of(1_001) as crowd:
        await asyncio.sleep(1_000)
        crowd.count_from_now()

        await crowd.kill("node-0")
        waited_s = await crowd.time_to_new_leader()
        await asyncio.sleep(60)

        assert waited_s <= SETTINGS.lease_duration_s + 1.2 * SETTINGS.retry_period_s + 0.2
        assert len(crowd.leaders()) == 1
        assert crowd.busiest(window_s=10) < 10


@pytest.mark.slow
@pytest.mark.looptime
async def test_when_leader_and_all_standbys_die_another_leads_half_a_minute_later():
    async with crowd_of(1_001) as crowd:
        await asyncio.sleep(1_000)
        standbys = decode_standbys(await lease_of(crowd.api))
        assert len(standbys) == SETTINGS.standby_count
        crowd.count_from_now()

        await crowd.kill("node-0", *standbys)
        waited_s = await crowd.time_to_new_leader()
        await asyncio.sleep(60)

        assert waited_s <= 30
        assert len(crowd.leaders()) == 1
        assert crowd.busiest(window_s=10) < 10
