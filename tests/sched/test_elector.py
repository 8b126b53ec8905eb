import asyncio

import pytest

from hamid.codec.standbys import decode_standbys
from hamid.kube.errors import NotFound
from hamid.kube.fake import FakeApi, FakeKube, Fault, FaultKind
from hamid.kube.port import LEASES
from hamid.model.names import LEASE_CANDIDATE
from hamid.sched.elector import BARRED_S
from hamid.sched.leader_settings import LeaseSettings
from tests.sched.electors import SETTINGS, lease_of, make_elector
from tests.sched.world import Clock

LEASE_LABEL = "leases.coordination.k8s.io"


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


# Taking and holding.


async def test_what_the_leader_serves_with_is_told_by_the_lease_and_outlives_it(a, b, clock):
    await a.step()
    a.announce("1234")
    await a.step()
    await b.step()
    told = b.served.get()
    clock.now_s += SETTINGS.lease_duration_s + 1

    await b.step()
    await b.step()

    assert b.may_act()
    assert told == "1234"
    assert b.served.get() == "1234"


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


async def test_the_lease_is_labelled_by_all_who_write_it_and_do_not_hold_it(api, a, b):
    async def is_labelled():
        lease = await lease_of(api)
        return LEASE_CANDIDATE in lease["metadata"].get("labels", {})

    await a.step()
    is_after_creation = await is_labelled()
    await a.step()
    is_after_renewal = await is_labelled()
    await b.step()
    is_after_signing_up = await is_labelled()
    await a.release()
    is_after_release = await is_labelled()
    await b.step()
    is_after_taking = await is_labelled()

    assert b.may_act()
    assert (is_after_creation, is_after_signing_up, is_after_taking) == (True, True, True)
    assert (is_after_renewal, is_after_release) == (False, False)


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


async def test_a_lease_that_another_has_signed_since_is_released_all_the_same(api, a, b):
    await a.step()
    await b.step()

    await a.release()

    assert (await lease_of(api))["spec"]["holderIdentity"] == ""


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
