import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from hamid.codec.allocation_record import decode_allocation
from hamid.kube.errors import Conflict, NotFound, TooManyRequests, Unavailable
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import NODES, PODS, PatchKind
from hamid.model import names as wire
from hamid.model.quantities import MemoryMib
from hamid.sched.bind import BindRefused
from hamid.sched.leadership import FixedLeadership
from hamid.sched.nominations import Nomination
from hamid.sched.placement.typical import CardAsk, Shape
from hamid.sched.reservations import Stage
from hamid.web.errors import Refusal
from tests.builders import container_object, pod_object
from tests.sched.builders import make_allocation, make_devices, make_share
from tests.sched.objects import bound, registered, waiting
from tests.sched.world import World


@pytest.fixture
def world():
    return World(pod_wait_s=0.01)


async def placed(world, *nodes, **pod):
    """Nodes, and one pod for which filter has kept room on the best of them."""
    (call,) = await world.create(*(nodes or (registered(),)), waiting(**pod))
    result = await world.filter(call)
    assert result.node_names
    return call


def memory_used(world, node_name="node-a"):
    return [usage.memory_used_mib for usage in world.cache.snapshot(node_name).usages]


def writes(world):
    return world.kube.requests.count(resource="pods/binding")


def binding_fault(kind, **details):
    return Fault(kind=kind, resource="pods/binding", **details)


async def test_one_call_gives_node_and_allocation(world):
    call = await placed(world, mib=3_000)
    world.kube.requests.clear()

    await world.binder.bind(call.bind("node-a"))

    pod = await world.pod(call)
    annotations = pod["metadata"]["annotations"]
    allocation = decode_allocation(annotations[wire.POD_ALLOCATION])
    assert pod["spec"]["nodeName"] == "node-a"
    assert (allocation.pod_uid, allocation.node_name) == (call.uid, "node-a")
    assert annotations[wire.POD_ALLOCATED] == "card-0,NVIDIA,3000,0:;"
    assert annotations[wire.POD_BIND_TIME] == "1755757239"
    assert pod["metadata"]["labels"] == {wire.POD_NODE: "node-a"}
    assert writes(world) == 1


ONE = {"gpu": 1, "gpumem": 1_000}


@pytest.mark.parametrize(
    ("asks", "memory_mib", "text"),
    [
        pytest.param(
            (None, ONE, None, None, None),
            {"c1": 1_000},
            ";card-0,NVIDIA,1000,0:;;;;",
            id="only the second of five",
        ),
        pytest.param(
            ({"gpu": 1, "gpumem-percentage": 50}, None, {"gpu": 1, "gpumem": 2_000}),
            {"c0": 20_000, "c2": 2_000},
            "card-0,NVIDIA,20000,0:;;card-0,NVIDIA,2000,0:;",
            id="the first and the third of three",
        ),
    ],
)
async def test_sparse_containers_are_stored_as_exactly_those_that_ask(
    world, asks, memory_mib, text
):
    """Field report d 3 (Project-HAMi/HAMi#991, #698)."""
    containers = [container_object(f"c{n}", ask) for n, ask in enumerate(asks)]
    call = await placed(world, containers=tuple(containers))

    await world.binder.bind(call.bind("node-a"))

    annotations = (await world.pod(call))["metadata"]["annotations"]
    allocation = decode_allocation(annotations[wire.POD_ALLOCATION])
    assert {c.container_name: c.shares[0].memory_mib for c in allocation.containers} == memory_mib
    assert annotations[wire.POD_ALLOCATED] == text


async def test_the_room_is_kept_until_the_watch_shows_the_pod(world):
    call = await placed(world, mib=3_000)

    await world.binder.bind(call.bind("node-a"))
    assert world.cache.reservation(call.uid).stage is Stage.BOUND
    assert memory_used(world) == [3_000]

    await world.sync()
    assert world.cache.reservation(call.uid) is None
    assert memory_used(world) == [3_000]
    world.assert_books_are_right()


async def test_another_node_than_the_reserved_one_gets_the_pod_if_it_fits_there(world):
    call = await placed(world, registered(), registered("node-b"))

    await world.binder.bind(call.bind("node-b"))

    assert memory_used(world, "node-a") == [0]
    assert memory_used(world, "node-b") == [1_000]


async def test_another_node_without_room_is_refused_with_numbers(world):
    small = registered("node-b", make_devices(1, memory_mib=500))
    call = await placed(world, registered(), small)

    with pytest.raises(BindRefused, match="need 1000 MiB, largest has 500 MiB"):
        await world.binder.bind(call.bind("node-b"))

    assert writes(world) == 0
    assert world.cache.reservations() == ()


@pytest.mark.parametrize(
    ("priority", "is_bound"),
    [
        pytest.param(9, False, id="of lower priority"),
        pytest.param(10, False, id="of equal priority"),
        pytest.param(11, True, id="of higher priority"),
    ],
)
async def test_a_pod_that_is_decided_anew_respects_room_that_is_being_made(
    world, priority, is_bound
):
    call = await placed(world, mib=30_000, priority=priority)
    world.clock.advance(31)
    world.binder.nominations.put(
        Nomination(
            allocation=make_allocation(
                make_share("card-0", memory_mib=30_000), uid="high", node_name="node-a"
            ),
            priority=10,
            victims=frozenset(),
            expires_at=world.clock() + 60,
        )
    )

    refusal = pytest.raises(BindRefused, match="need 30000 MiB, most free 10000 MiB")
    with nullcontext() if is_bound else refusal:
        await world.binder.bind(call.bind("node-a"))

    assert ("nodeName" in (await world.pod(call))["spec"]) is is_bound


async def test_a_pod_that_is_decided_anew_gets_the_card_that_filter_would_choose(world):
    """What usually comes has changed meanwhile, and with it what is best left free."""
    small, large = make_devices(2)
    devices = (replace(small, memory_mib=24_000), replace(large, memory_mib=40_000))
    call = await placed(world, registered(devices=devices), mib=10_000)
    expected = world.cache.reservation(call.uid).allocation
    typical = CardAsk(device_count=1, memory=MemoryMib(mib=24_000), core_percent=0)
    for number in range(100):
        world.binder.arrivals.count(str(number), (Shape(cards=typical),))
    again = await world.filter(call)
    assert again.node_names
    learned = world.cache.reservation(call.uid).allocation
    assert learned != expected
    world.clock.advance(31)

    await world.binder.bind(call.bind("node-a"))

    assert world.cache.reservation(call.uid).allocation == learned


async def test_a_reservation_that_has_expired_is_made_anew(world):
    call = await placed(world)
    world.clock.advance(31)

    await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [1_000]


async def test_a_reserved_device_that_fell_ill_is_replaced(world):
    call = await placed(world, registered(devices=make_devices(2)))
    ill, well = make_devices(2)
    ill = make_devices(1, is_healthy=False)[0]
    await world.kube.patch(
        NODES,
        "node-a",
        {"metadata": {"annotations": registered(devices=[ill, well])["metadata"]["annotations"]}},
        kind=PatchKind.MERGE,
    )
    await world.sync()

    await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [0, 1_000]


async def test_a_reserved_card_that_the_leader_before_gave_away_is_replaced(world):
    """Its bind was sent in time and arrived late: after this pod was placed."""
    call = await placed(world, registered(devices=make_devices(2)), mib=30_000)
    (kept,) = world.cache.reservation(call.uid).allocation.containers
    taken = kept.shares[0].device_uuid
    world.cache.take_pod(bound(make_share(taken, memory_mib=30_000), uid="late"))

    await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [30_000, 30_000]


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        pytest.param({"gpu": 1}, {"core_percent": 0}, id="by this pod, beside one of no cores"),
        pytest.param(
            {"gpu": 1, "gpumem": 1_000},
            {"core_percent": 100},
            id="by the other, beside one of none",
        ),
    ],
)
async def test_a_reserved_card_is_not_shared_with_the_late_where_it_is_held_whole(
    world, asked, held
):
    """Though neither memory nor cores nor slots are over."""
    asking = container_object("main", asked)
    call = await placed(world, registered(devices=make_devices(2)), containers=(asking,))
    (kept,) = world.cache.reservation(call.uid).allocation.containers
    taken = kept.shares[0].device_uuid
    world.cache.take_pod(bound(make_share(taken, memory_mib=0, **held), uid="late"))

    await world.binder.bind(call.bind("node-a"))

    assert [usage.slots_used for usage in world.cache.snapshot("node-a").usages] == [1, 1]


async def test_where_the_leader_before_gave_all_away_the_bind_is_refused(world):
    call = await placed(world, mib=30_000)
    world.cache.take_pod(bound(make_share("card-0", memory_mib=30_000), uid="late"))

    with pytest.raises(BindRefused, match="does not fit on node-a any more"):
        await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [30_000]
    assert writes(world) == 0


async def test_a_node_that_is_gone_is_refused(world):
    call = await placed(world)

    with pytest.raises(BindRefused, match="node-x is not known"):
        await world.binder.bind(call.bind("node-x"))


async def test_a_replica_that_does_not_lead_binds_nothing(world):
    call = await placed(world)
    world.leadership.is_leader = False
    world.leadership.holder = "other"

    with pytest.raises(Refusal, match="other does") as refused:
        await world.binder.bind(call.bind("node-a"))

    assert refused.value.closes_connection
    assert writes(world) == 0


async def test_what_was_decided_before_the_term_ended_is_not_sent_after_it(world):
    call = await placed(world)

    class Ending(FixedLeadership):
        def may_act(self):
            leads, self.is_leader = self.is_leader, False
            return leads

    term = Ending(holder="other")
    binder = replace(world.binder, leadership=term, kube=world.kube.guarded(term.may_act))
    with pytest.raises(Refusal, match="other does") as refused:
        await binder.bind(call.bind("node-a"))

    assert refused.value.closes_connection
    assert writes(world) == 0


async def test_a_pod_made_anew_under_the_same_name_is_not_bound(world):
    call = await placed(world, name="same")
    await world.kube.delete(PODS, "same", namespace="default", grace_period_s=0)
    await world.kube.create(PODS, waiting("other", name="same"))

    with pytest.raises(Conflict):
        await world.binder.bind(call.bind("node-a"))

    assert "nodeName" not in (await world.pod(call))["spec"]
    assert memory_used(world) == [0]


async def test_a_pod_that_is_gone_frees_its_room(world):
    call = await placed(world)
    await world.kube.delete(PODS, call.name, namespace="default", grace_period_s=0)

    with pytest.raises(NotFound):
        await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [0]


async def test_a_busy_server_frees_the_room(world):
    call = await placed(world)
    world.kube.faults.add(binding_fault(FaultKind.STATUS, code=429))

    with pytest.raises(TooManyRequests):
        await world.binder.bind(call.bind("node-a"))

    assert memory_used(world) == [0]


def lost_and_unreadable(world):
    """The bind is done, but neither its answer nor a look at the pod comes through."""
    world.kube.faults.add(binding_fault(FaultKind.LOSE_ANSWER))
    world.kube.faults.add(Fault(kind=FaultKind.STATUS, verb="get", resource="pods", code=500))


async def test_a_failed_bind_frees_the_room(world):
    """Field report d 9: the write of the winner fails with 500."""
    call = await placed(world)
    world.kube.faults.add(binding_fault(FaultKind.STATUS, code=500))

    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))

    assert world.cache.reservations() == ()
    assert memory_used(world) == [0]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(binding_fault(FaultKind.DROP), id="the connection was cut"),
        pytest.param(binding_fault(FaultKind.STATUS, code=504), id="the server ran out of time"),
    ],
)
async def test_a_bind_without_an_answer_keeps_the_room(world, fault):
    call = await placed(world)
    world.kube.faults.add(fault)

    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))

    assert world.cache.reservation(call.uid).stage is Stage.SENT
    assert memory_used(world) == [1_000]


async def test_a_bind_whose_answer_was_lost_is_found_done(world):
    call = await placed(world)
    world.kube.faults.add(binding_fault(FaultKind.LOSE_ANSWER))

    await world.binder.bind(call.bind("node-a"))

    assert world.cache.reservation(call.uid).stage is Stage.BOUND


async def test_a_bind_whose_outcome_cannot_be_told_is_told_by_the_watch(world):
    call = await placed(world)
    lost_and_unreadable(world)
    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))
    assert world.cache.reservation(call.uid).stage is Stage.SENT

    await world.sync()

    assert world.cache.reservations() == ()
    assert memory_used(world) == [1_000]


async def test_a_bind_whose_outcome_cannot_be_told_may_be_sent_again(world):
    call = await placed(world)
    lost_and_unreadable(world)
    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))

    await world.binder.bind(call.bind("node-a"))

    assert world.cache.reservation(call.uid).stage is Stage.BOUND
    assert memory_used(world) == [1_000]


async def test_no_other_node_is_tried_while_the_pod_may_be_bound(world):
    call = await placed(world, registered(), registered("node-b"))
    lost_and_unreadable(world)
    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))

    with pytest.raises(BindRefused, match="may be bound to node-a"):
        await world.binder.bind(call.bind("node-b"))

    assert memory_used(world, "node-b") == [0]


@pytest.mark.looptime
async def test_a_caller_that_hangs_up_leaves_the_outcome_unknown(world):
    call = await placed(world)
    world.kube.faults.add(binding_fault(FaultKind.DELAY, delay_s=60))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.binder.bind(call.bind("node-a")), timeout=1)

    assert world.cache.reservation(call.uid).stage is Stage.SENT


async def test_a_bind_that_is_asked_again_after_it_was_done_is_done(world):
    call = await placed(world)
    await world.binder.bind(call.bind("node-a"))
    await world.sync()
    sent = writes(world)

    await world.binder.bind(call.bind("node-a"))

    assert writes(world) == sent


async def test_a_pod_that_is_bound_elsewhere_is_refused(world):
    call = await placed(world, registered(), registered("node-b"))
    await world.binder.bind(call.bind("node-a"))
    await world.sync()

    with pytest.raises(BindRefused, match="is bound to node-a already"):
        await world.binder.bind(call.bind("node-b"))


async def test_a_pod_that_asks_for_no_device_is_bound_without_annotations(world):
    (call,) = await world.create(registered(), pod_object(container_object("main")))

    await world.binder.bind(call.bind("node-a"))

    pod = await world.pod(call)
    assert pod["spec"]["nodeName"] == "node-a"
    assert wire.POD_ALLOCATION not in (pod["metadata"].get("annotations") or {})


async def test_binds_are_counted_by_how_they_ended(world):
    call = await placed(world)
    world.kube.faults.add(binding_fault(FaultKind.STATUS, code=500))
    with pytest.raises(Unavailable):
        await world.binder.bind(call.bind("node-a"))

    await world.binder.bind(call.bind("node-a"))

    assert world.metric("hamid_sched_binds_total", outcome="ServiceUnavailable") == 1
    assert world.metric("hamid_sched_binds_total", outcome="bound") == 1
