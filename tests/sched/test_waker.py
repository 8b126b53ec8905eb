import itertools

import pytest

from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.model import names as wire
from hamid.sched.nominations import Nomination
from hamid.sched.sinks import QuotaSink
from hamid.sched.waker import Waker, WakerMetrics
from tests.sched.builders import make_allocation, make_devices, make_share
from tests.sched.objects import modified, quota_object, registered, waiting
from tests.sched.world import World

OURS = "hamid-scheduler"
ONE_CARD = registered(devices=make_devices(1))


class Crowd:
    """One card of 40,000 MiB, held by one pod; what comes after it is refused."""

    def __init__(self, **settings):
        world = self.world = World(**settings)
        self.waker = Waker(
            kube=world.kube,
            cache=world.cache,
            refused=world.extender.refused,
            nominations=world.extender.nominations,
            leadership=world.leadership,
            settings=world.settings,
            scheduler_name=OURS,
            clock=world.clock,
            wall_clock=lambda: 1_755_757_239.5,
            metrics=WakerMetrics.declared_in(world.registry),
        )

    async def fill(self):
        (self.holder,) = await self.world.create(ONE_CARD, waiting("holder", mib=40_000))
        assert (await self.world.filter(self.holder)).node_names
        await self.world.binder.bind(self.holder.bind("node-a"))
        await self.world.sync()
        await self.waker.step()

    async def refuse(self, *pods):
        calls = await self.world.create(*pods)
        for call in calls:
            assert not (await self.world.filter(call)).node_names
        return calls

    async def leave(self):
        await self.delete(self.holder)
        await self.world.sync()

    async def delete(self, call):
        await self.world.kube.delete(PODS, call.name, namespace=call.namespace, grace_period_s=0)

    async def is_woken(self, call):
        annotations = (await self.world.pod(call))["metadata"].get("annotations") or {}
        return wire.POD_ROOM_FREED in annotations

    def count(self, outcome):
        return self.world.metric("hamid_sched_wakes_total", outcome=outcome)


@pytest.fixture
async def crowd():
    made = Crowd()
    await made.fill()
    return made


def with_priority(pod, priority):
    return {**pod, "spec": {**pod["spec"], "priority": priority}}


async def test_a_pod_is_woken_once_there_is_room(crowd):
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    assert not await crowd.waker.step()
    assert not await crowd.is_woken(call)

    await crowd.leave()

    assert await crowd.waker.step()
    assert await crowd.is_woken(call)
    assert crowd.count("woken") == 1


async def test_a_fifth_of_the_time_at_most_goes_into_looking_who_fits(crowd):
    seconds = itertools.count()  # one between any two looks at the clock
    crowd.waker.clock = lambda: float(next(seconds))
    await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.leave()

    await crowd.waker.step()

    assert crowd.waker.rest_s == 4


async def test_a_pod_is_woken_once_its_quota_is_raised(crowd):
    await crowd.leave()
    await crowd.world.create(quota_object(gpumem=30_999))
    (call,) = await crowd.refuse(waiting("uid-1", mib=31_000))
    assert not await crowd.waker.step()

    QuotaSink(crowd.world.cache).apply(modified(quota_object(gpumem=31_000)))

    assert await crowd.waker.step()
    assert await crowd.is_woken(call)


async def test_a_pod_that_kube_scheduler_has_tried_again_by_itself_is_left_alone(crowd):
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.leave()
    assert (await crowd.world.filter(call)).node_names

    assert not await crowd.waker.step()

    assert not await crowd.is_woken(call)


async def test_a_pod_that_is_decided_about_while_others_are_woken_is_left_alone(crowd):
    one, other = await crowd.refuse(waiting("uid-1", mib=1_000), waiting("uid-2", mib=1_000))
    await crowd.leave()
    kube = crowd.waker.kube

    class Busy:
        async def patch(self, *args, **options):
            crowd.world.cache.assume(make_allocation(uid=other.uid))
            return await kube.patch(*args, **options)

    crowd.waker.kube = Busy()

    await crowd.waker.step()

    assert await crowd.is_woken(one)
    assert not await crowd.is_woken(other)


async def test_only_as_many_are_woken_as_fit_and_the_highest_priority_first(crowd):
    low, high, middle = await crowd.refuse(
        *(
            with_priority(waiting(uid, mib=30_000), priority)
            for uid, priority in (("low", 1), ("high", 3), ("middle", 2))
        )
    )

    await crowd.leave()
    await crowd.waker.step()

    assert [await crowd.is_woken(call) for call in (low, middle, high)] == [False, False, True]


async def test_room_that_is_promised_to_another_wakes_only_whom_it_may_go_to(crowd):
    heir, equal, higher = await crowd.refuse(
        *(
            with_priority(waiting(uid, mib=30_000), priority)
            for uid, priority in (("heir", 2), ("equal", 2), ("higher", 3))
        )
    )
    allocation = make_allocation(make_share("card-0", memory_mib=30_000), uid=heir.uid)
    crowd.world.extender.nominations.put(
        Nomination(allocation=allocation, priority=2, victims=frozenset(), expires_at=9_999)
    )
    await crowd.leave()

    await crowd.waker.step()
    assert [await crowd.is_woken(c) for c in (heir, equal, higher)] == [False, False, True]

    await crowd.delete(higher)
    await crowd.world.sync()
    await crowd.waker.step()
    assert [await crowd.is_woken(c) for c in (heir, equal)] == [True, False]


async def test_a_pod_is_woken_once_for_each_time_and_then_others_get_their_turn(crowd):
    _, second = await crowd.refuse(
        with_priority(waiting("first", mib=30_000), 1), waiting("second", mib=30_000)
    )
    await crowd.leave()
    await crowd.waker.step()

    assert await crowd.waker.step()  # the first one is given time
    assert not await crowd.is_woken(second)

    crowd.world.clock.advance(1.5)
    await crowd.waker.step()

    assert await crowd.is_woken(second)
    crowd.world.clock.advance(1.5)
    assert not await crowd.waker.step()
    assert crowd.count("woken") == 2


async def test_one_that_was_tried_and_may_not_go_there_makes_way_at_once(crowd):
    first, second = await crowd.refuse(
        with_priority(waiting("first", mib=30_000), 1), waiting("second", mib=30_000)
    )
    await crowd.leave()
    await crowd.waker.step()

    assert not (await crowd.world.filter(first, "node-b")).node_names
    await crowd.waker.step()

    assert await crowd.is_woken(second)


async def test_what_kube_scheduler_never_asked_about_is_not_woken(crowd):
    (call,) = await crowd.world.create(waiting("uid-1", mib=30_000))

    await crowd.leave()

    assert not await crowd.waker.step()
    assert not await crowd.is_woken(call)


async def test_what_waits_when_a_term_begins_is_woken_once_if_it_fits():
    crowd = Crowd()
    fits, too_large, foreign = await crowd.world.create(
        ONE_CARD,
        waiting("fits", mib=30_000, schedulerName=OURS),
        waiting("large", mib=50_000, schedulerName=OURS),
        waiting("foreign", mib=1_000, schedulerName="volcano"),
    )

    assert not await crowd.waker.step()
    crowd.world.clock.advance(6)
    assert await crowd.waker.step()
    assert not await crowd.waker.step()

    assert await crowd.is_woken(fits)
    assert not await crowd.is_woken(too_large)
    assert not await crowd.is_woken(foreign)  # whose pods are never changed


async def test_who_does_not_lead_wakes_nobody(crowd):
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.leave()
    crowd.world.leadership.is_leader = False

    assert not await crowd.waker.step()

    assert not await crowd.is_woken(call)


async def test_the_operator_may_want_nobody_woken():
    crowd = Crowd(wakes_waiting_pods=False)
    await crowd.fill()
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.leave()

    assert not await crowd.waker.step()

    assert not await crowd.is_woken(call)


async def test_a_pod_made_anew_meanwhile_is_no_trouble(crowd):
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.leave()
    await crowd.delete(call)
    await crowd.world.kube.create(PODS, waiting("uid-2", mib=30_000, name=call.name))

    await crowd.waker.step()

    assert not await crowd.is_woken(call)
    assert crowd.count("gone") == 1


async def test_without_the_right_to_it_says_so_once_and_goes_on(crowd, logs):
    await crowd.refuse(*(waiting(f"uid-{n}", mib=1_000) for n in range(7)))
    crowd.world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=403, times=None))
    await crowd.leave()

    await crowd.waker.step()

    assert [line["event"] for line in logs].count("waiting pods cannot be woken") == 1
    assert crowd.count("failed") == 7


async def test_one_that_was_bound_in_that_moment_is_nothing_to_complain_of(crowd, logs):
    await crowd.refuse(waiting("uid-1", mib=30_000), waiting("uid-2", mib=1_000))
    crowd.world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=403))
    await crowd.leave()

    await crowd.waker.step()

    assert "waiting pods cannot be woken" not in [line["event"] for line in logs]
    assert (crowd.count("failed"), crowd.count("woken")) == (1, 1)


@pytest.mark.parametrize("code", [500, 429])
async def test_one_whom_the_api_server_did_not_wake_is_woken_a_moment_later(crowd, code):
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    crowd.world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=code))
    await crowd.leave()
    assert await crowd.waker.step()
    assert await crowd.waker.step()
    assert not await crowd.is_woken(call)

    crowd.world.clock.advance(1.5)
    await crowd.waker.step()

    assert await crowd.is_woken(call)
    assert (crowd.count("failed"), crowd.count("woken")) == (1, 1)
    assert await crowd.waker.step()
    assert crowd.count("woken") == 1


async def test_without_the_right_to_it_it_is_not_tried_again_and_again(crowd):
    await crowd.refuse(waiting("uid-1", mib=30_000))
    crowd.world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="patch", code=403, times=None))
    await crowd.leave()

    for _ in range(5):
        await crowd.waker.step()
        crowd.world.clock.advance(1.5)

    assert crowd.count("failed") == 1


async def test_however_many_wait_in_vain_those_behind_them_get_their_turn(crowd, monkeypatch):
    """Nothing has kube-scheduler try them again: a quota was raised that was not theirs."""
    monkeypatch.setattr("hamid.sched.waker._LOOKED_AT", 2)
    large = [with_priority(waiting(f"large-{n}", mib=50_000), 1) for n in range(5)]
    *_, small = await crowd.refuse(*large, waiting("small", mib=30_000))
    await crowd.leave()

    rounds = 0
    while await crowd.waker.step():
        rounds += 1
        if rounds == 4:
            crowd.world.clock.advance(1.5)

    assert await crowd.is_woken(small)
    assert rounds <= 4
    assert crowd.count("woken") == 1


async def test_one_that_was_looked_at_in_vain_is_looked_at_again_once_more_is_free(crowd):
    await crowd.world.create(registered("node-b", make_devices(1, memory_mib=10_000)))
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    crowd.world.cache.freed.on("node-b")
    assert not await crowd.waker.step()

    await crowd.leave()
    await crowd.waker.step()

    assert await crowd.is_woken(call)


async def test_all_nodes_are_looked_through_once_however_many_wait_when_a_term_begins():
    crowd = Crowd()
    await crowd.world.create(
        ONE_CARD, *(waiting(f"uid-{n}", mib=50_000, schedulerName=OURS) for n in range(9))
    )
    await crowd.waker.step()
    crowd.world.clock.advance(6)
    snapshots, looks = crowd.world.cache.snapshots, []

    class Counting:
        def snapshots(self):
            looks.append(1)
            return snapshots()

        def __getattr__(self, name):
            return getattr(crowd.world.cache, name)

    crowd.waker.cache = Counting()
    await crowd.waker.step()

    assert len(looks) == 1


async def test_a_cordon_that_is_lifted_makes_room(crowd):
    async def cordon(text):
        patch = {"metadata": {"annotations": {wire.DEVICE_CORDON: text}}}
        await crowd.world.kube.patch(NODES, "node-a", patch, kind=PatchKind.MERGE)
        await crowd.world.sync()

    await crowd.leave()
    await cordon("card-0")
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))

    await cordon(None)
    await crowd.waker.step()

    assert await crowd.is_woken(call)


@pytest.mark.parametrize(
    ("away", "back", "part"),
    [
        (
            {"metadata": {"annotations": {wire.NODE_REGISTER: None}}},
            {"metadata": {"annotations": ONE_CARD["metadata"]["annotations"]}},
            None,
        ),
        (
            {"status": {"allocatable": {"nvidia.com/gpu": "0"}}},
            {"status": {"allocatable": {"nvidia.com/gpu": "10"}}},
            "status",
        ),
    ],
    ids=["registration", "slots"],
)
async def test_a_node_whose_cards_were_away_makes_room_once_they_are_back(crowd, away, back, part):
    async def change(patch):
        kind = PatchKind.MERGE
        await crowd.world.kube.patch(NODES, "node-a", patch, kind=kind, subresource=part)
        await crowd.world.sync()

    await crowd.leave()
    await change(away)
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))
    await crowd.waker.step()
    assert not await crowd.is_woken(call)

    await change(back)
    await crowd.waker.step()

    assert await crowd.is_woken(call)


async def test_a_node_that_is_deleted_and_made_anew_makes_room(crowd):
    """kube-scheduler sees it first, and asks about it while our books do not know it."""
    await crowd.leave()
    await crowd.world.create(registered("node-b", make_devices(1, memory_mib=10_000)))
    await crowd.world.kube.delete(NODES, "node-a")
    await crowd.world.sync()
    (call,) = await crowd.refuse(waiting("uid-1", mib=30_000))

    await crowd.world.kube.create(NODES, ONE_CARD)
    assert not (await crowd.world.filter(call)).node_names
    await crowd.waker.step()
    assert not await crowd.is_woken(call)
    await crowd.world.sync()
    await crowd.waker.step()

    assert await crowd.is_woken(call)


async def test_a_reservation_that_ends_makes_room(crowd):
    await crowd.leave()
    (first,) = await crowd.world.create(waiting("uid-1", mib=30_000))
    assert (await crowd.world.filter(first)).node_names
    (second,) = await crowd.refuse(waiting("uid-2", mib=30_000))

    crowd.world.clock.advance(crowd.world.settings.reservation_ttl_s + 1)
    crowd.world.cache.reservations()
    await crowd.waker.step()

    assert await crowd.is_woken(second)
