import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.services import running
from hamid.codec.standbys import decode_standbys
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeApi, FakeKube, Fault, FaultKind
from hamid.kube.port import LEASES
from hamid.sched.elector import BARRED_S, ElectorMetrics, LeaderWork, LeaseElector
from hamid.sched.leader_settings import LeaseSettings

SETTINGS = LeaseSettings()
LEASE_LABEL = "leases.coordination.k8s.io"


@dataclass
class Clock:
    now_s: float = 1_000.0

    def __call__(self):
        return self.now_s


def make_elector(api, identity, *, clock, settings=SETTINGS, skew_s=0.0):
    return LeaseElector(
        kube=FakeKube(api=api, caller=identity),
        settings=settings,
        identity=identity,
        clock=clock,
        wall_clock=lambda: clock() + 1_700_000_000.0 + skew_s,
        metrics=ElectorMetrics(CollectorRegistry()),
        rng=random.Random(identity),
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def api():
    return FakeApi()


@pytest.fixture
def a(api, clock):
    return make_elector(api, "a", clock=clock)


@pytest.fixture
def b(api, clock):
    return make_elector(api, "b", clock=clock)


async def lease_of(api):
    return await FakeKube(api=api, caller="test").get(
        LEASES, SETTINGS.name, namespace=SETTINGS.namespace
    )


# Taking and holding.


async def test_the_first_replica_creates_the_lease_and_leads(api, a):
    assert not a.may_act()

    delay_s = await a.step()

    lease = await lease_of(api)
    assert a.may_act()
    assert a.holder == "a"
    assert delay_s == SETTINGS.retry_period_s
    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["leaseDurationSeconds"] == 15


async def test_the_second_replica_follows_and_knows_who_leads(a, b):
    await a.step()

    await b.step()

    assert not b.may_act()
    assert b.holder == "a"


async def test_a_renewal_is_one_write_and_no_read(api, a):
    await a.step()
    api.requests.clear()

    await a.step()

    assert api.requests.by() == {("update", LEASE_LABEL): 1}


async def test_a_lease_that_has_not_changed_for_its_duration_is_taken(a, b, clock):
    await a.step()
    await b.step()
    clock.now_s += SETTINGS.lease_duration_s - 0.1
    await b.step()
    assert not b.may_act()

    clock.now_s += 0.1
    await b.step()

    assert b.may_act()
    assert not a.may_act()


async def test_only_our_own_clock_counts_whatever_times_are_written(api, clock):
    ahead = make_elector(api, "ahead", clock=clock, skew_s=86_400.0)
    behind = make_elector(api, "behind", clock=clock, skew_s=-86_400.0)

    await behind.step()
    await ahead.step()

    assert behind.may_act()
    assert not ahead.may_act()


async def test_of_two_that_take_an_expired_lease_at_once_one_wins(api, a, b, clock):
    c = make_elector(api, "c", clock=clock)
    for elector in (a, b, c):
        await elector.step()
    clock.now_s += SETTINGS.lease_duration_s
    api.faults.add(Fault(kind=FaultKind.DELAY, verb="update", times=2, delay_s=0.001))

    async with asyncio.TaskGroup() as group:
        group.create_task(b.step())
        group.create_task(c.step())

    assert [b.may_act(), c.may_act()].count(True) == 1


async def test_a_container_that_crashed_goes_on_at_once_under_the_same_identity(api, a, clock):
    await a.step()

    again = make_elector(api, "a", clock=clock)
    await again.step()

    assert again.may_act()


async def test_a_replica_that_may_not_lead_only_learns_who_does(api, clock, a):
    watcher = make_elector(api, "w", clock=clock, settings=LeaseSettings(can_lead=False))
    await watcher.step()
    assert not watcher.may_act()
    await a.step()

    delay_s = await watcher.step()

    assert watcher.holder == "a"
    assert decode_standbys(await lease_of(api)) == ()
    assert delay_s > SETTINGS.lease_duration_s


async def test_a_replica_that_is_not_let_sign_up_keeps_away_and_asks_again_much_later(
    api, clock, a, b, assert_logged
):
    await a.step()
    api.faults.add(Fault(kind=FaultKind.STATUS, code=403, verb="update", caller="b", times=None))
    api.requests.clear()

    delays = [await b.step() for _ in range(3)]

    assert min(delays) > 0
    assert max(delays) > SETTINGS.lease_duration_s
    assert api.requests.by() == {("get", LEASE_LABEL): 3, ("update", LEASE_LABEL): 1}
    assert_logged("lease barred", identity="b")
    clock.now_s += 60.0
    await b.step()
    assert not b.may_act()

    api.faults.clear()
    clock.now_s += BARRED_S
    await b.step()

    assert b.may_act()


# Losing.


async def test_a_leader_that_cannot_renew_stops_acting_at_the_deadline(api, a, clock):
    await a.step()
    api.faults.add(Fault(kind=FaultKind.STATUS, code=500, times=None))

    clock.now_s += SETTINGS.renew_deadline_s - 0.1
    await a.step()
    assert a.may_act()
    clock.now_s += 0.1

    assert not a.may_act()
    await a.step()
    assert a.metrics.is_leader._value.get() == 0


async def test_a_leader_whose_loop_is_stuck_stops_acting_all_the_same(api, a, clock):
    await a.step()
    api.faults.add(Fault(kind=FaultKind.DELAY, verb="update", delay_s=3_600))
    stuck = asyncio.ensure_future(a.step())  # noqa: TID251 - cancelled below
    await asyncio.sleep(0)

    clock.now_s += SETTINGS.renew_deadline_s

    assert not a.may_act()
    stuck.cancel()
    await asyncio.wait([stuck])


async def test_a_renewal_counts_from_when_it_was_sent(api, a, clock):
    await a.step()

    class Slow(FakeKube):
        async def replace(self, *args, **kwargs):
            clock.now_s += 9.0
            return await super().replace(*args, **kwargs)

    a.kube = Slow(api=api)
    await a.step()
    assert a.may_act()

    clock.now_s += 1.0

    assert not a.may_act()


async def test_an_ex_leader_that_was_frozen_may_write_nothing_when_it_goes_on(a, b, clock):
    await a.step()
    await b.step()
    clock.now_s += 90.0
    await b.step()

    assert not a.may_act()
    await a.step()
    assert not a.may_act()
    assert a.holder == "b"
    assert b.may_act()


async def test_a_renewal_that_was_done_though_its_answer_was_lost_is_no_loss(api, a, clock):
    await a.step()
    api.faults.add(Fault(kind=FaultKind.LOSE_ANSWER, verb="update"))

    clock.now_s += 2.0
    await a.step()
    clock.now_s += 2.0
    await a.step()
    clock.now_s += 8.0

    assert a.may_act()


async def test_deleting_the_lease_makes_no_second_leader(api, a, b, clock):
    await a.step()
    await b.step()
    await FakeKube(api=api).delete(LEASES, SETTINGS.name, namespace=SETTINGS.namespace)
    clock.now_s += 2.0

    await b.step()
    assert not b.may_act()
    await a.step()

    assert a.may_act()
    assert (await lease_of(api))["spec"]["holderIdentity"] == "a"


async def test_failures_are_said_once_and_so_is_the_recovery(api, a, logs):
    await a.step()
    api.faults.add(Fault(kind=FaultKind.STATUS, code=503, times=3))

    for _ in range(5):
        await a.step()

    events = [entry["event"] for entry in logs]
    assert events.count("lease unreachable") == 1
    assert events.count("lease reachable again") == 1
    assert a.metrics.failures._value.get() == 3


async def test_a_namespace_that_is_missing_is_said(api, clock, assert_logged):
    class NoNamespace(FakeKube):
        async def create(self, *_args, **_kwargs):
            raise NotFound("namespaces 'kube-system' not found")

    elector = make_elector(api, "a", clock=clock)
    elector.kube = NoNamespace(api=api)

    await elector.step()

    assert_logged("lease unreachable")


# Leader-only work, and release.


@dataclass
class Work:
    """Notes when it runs."""

    name: str = "work"
    is_running: bool = False
    starts: int = 0
    may_stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self):
        self.is_running = True
        self.starts += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False


async def until(condition):
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come about")


def make_timed(api, identity, settings=SETTINGS):
    return make_elector(api, identity, clock=asyncio.get_running_loop().time, settings=settings)


@pytest.mark.looptime
async def test_leader_only_work_has_stopped_before_the_lease_is_released():
    api = FakeApi()
    elector = make_timed(api, "a")
    work = Work()
    order = []

    class Watching(FakeKube):
        async def replace(self, resource, body, **kwargs):
            if not body["spec"]["holderIdentity"]:
                order.append(("released", work.is_running))
            return await super().replace(resource, body, **kwargs)

    elector.kube = Watching(api=api)
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await until(lambda: work.is_running)

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
    api = FakeApi()
    elector = make_timed(api, "a")
    work = Work()
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
        assert work.is_running
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
    api = FakeApi()
    elector = make_timed(api, "a")
    elector.kube = FakeKube(api=api).within(SETTINGS.request_deadline_s)
    work = Work()
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
        api.faults.add(Fault(kind=FaultKind.SILENCE, verb="update"))

        await asyncio.sleep(30)

        assert elector.may_act()

    assert work.starts == 1


@pytest.mark.looptime
async def test_work_stops_though_the_renewing_loop_is_stuck():
    api = FakeApi()
    elector = make_timed(api, "a")
    work = Work()
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
        api.faults.add(Fault(kind=FaultKind.DELAY, delay_s=3_600, times=None, verb="update"))

        await asyncio.sleep(12)

        assert not work.is_running


@pytest.mark.looptime
async def test_work_starts_anew_though_the_renewal_that_came_too_late_for_it_was_done():
    """The API server is back just before the deadline, and answers just after it."""
    api = FakeApi()
    elector = make_timed(api, "a")
    work = Work()
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
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
    api = FakeApi()
    elector = make_timed(api, "a")
    work = Work()
    async with running(elector), running(LeaderWork(elector=elector, services=lambda: [work])):
        await asyncio.sleep(1)
        api.faults.add(Fault(kind=FaultKind.DELAY, delay_s=9.0, verb="update"))

        await asyncio.sleep(20)

        assert elector.may_act()
        assert work.is_running

    assert work.starts == 2


async def test_a_renewal_whose_answer_comes_after_the_deadline_ends_the_term(api, a, clock):
    await a.step()
    clock.now_s += SETTINGS.retry_period_s

    class Late(FakeKube):
        async def replace(self, *args, **kwargs):
            answer = await super().replace(*args, **kwargs)
            clock.now_s += SETTINGS.renew_deadline_s - 1.0
            return answer

    a.kube = Late(api=api)
    await a.step()

    assert not a.may_act()
    a.kube = FakeKube(api=api)
    await a.step()
    assert a.may_act()


async def test_the_lease_is_not_taken_again_before_the_work_of_the_last_term_has_ended(a, clock):
    await a.step()
    async with a.leadership():
        clock.now_s += 60.0
        await a.step()
        assert not a.may_act()
        await a.step()
        assert not a.may_act()

    await a.step()

    assert a.may_act()


async def test_a_lease_under_which_work_still_goes_on_is_not_released(api, a, assert_logged):
    await a.step()
    async with a.leadership():
        await a.release()

        assert (await lease_of(api))["spec"]["holderIdentity"] == "a"
        assert_logged("lease kept")


# Standbys.


async def test_followers_sign_up_as_standbys_while_there_is_room(api, clock, a):
    settings = LeaseSettings(standby_count=2)
    followers = [make_elector(api, name, clock=clock, settings=settings) for name in "bcd"]
    await a.step()

    delays = [await follower.step() for follower in followers]

    assert decode_standbys(await lease_of(api)) == ("b", "c")
    assert max(delays[:2]) <= SETTINGS.retry_period_s * 1.2
    await a.step()
    assert a.may_act()


async def test_standbys_have_to_sign_up_again_so_that_those_who_are_gone_make_room(
    api, a, b, clock
):
    await a.step()
    await b.step()
    clock.now_s += 1.0
    await a.step()
    assert decode_standbys(await lease_of(api)) == ("b",)

    while clock.now_s < 1_000.0 + SETTINGS.standby_term_s:
        clock.now_s += 5.0
        await a.step()

    assert decode_standbys(await lease_of(api)) == ()
    await b.step()
    assert decode_standbys(await lease_of(api)) == ("b",)


async def test_standbys_that_nobody_can_read_are_written_anew(api, a, b, assert_logged):
    await a.step()
    lease = await lease_of(api)
    lease["metadata"]["annotations"] = {"hamid.io/standbys": "what?"}
    await FakeKube(api=api).replace(LEASES, lease)

    await b.step()

    assert decode_standbys(await lease_of(api)) == ("b",)
    assert_logged("standbys unreadable")


# A thousand of them.


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
