import asyncio

import pytest
from prometheus_client import CollectorRegistry

from hamid.model import names as wire
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.request import ContainerKind
from hamid.sched.cache import ClusterCache
from hamid.sched.reservations import Stage
from hamid.sched.settings import SchedSettings
from hamid.sched.sinks import NodeSink, PodSink, QuotaSink
from tests.builders import container_object, node_object, pod_object
from tests.sched.builders import make_allocation, make_devices, make_share
from tests.sched.objects import added, bound, deleted, initialized, modified, registered, waiting
from tests.sched.recount import assert_books_are_right
from tests.sched.world import Clock, make_cache

SHARE = make_share("card-0", memory_mib=3_000, core_percent=30)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    found = make_cache(clock)
    NodeSink(found).replace((registered(devices=make_devices(2)), registered("node-b")))
    PodSink(found).replace(())
    return found


def memory_used(cache, node_name="node-a"):
    return [usage.memory_used_mib for usage in cache.snapshot(node_name).usages]


def allocation_with_init(uid="uid-1"):
    def container(name, kind, mib):
        shares = (make_share("card-0", memory_mib=mib),)
        return ContainerAllocation(container_name=name, kind=kind, shares=shares)

    return PodAllocation(
        pod_uid=uid,
        node_name="node-a",
        containers=(
            container("init", ContainerKind.INIT, 10_000),
            container("app", ContainerKind.APP, 4_000),
        ),
    )


def test_it_is_synced_after_the_first_list_of_all():
    found = make_cache()
    assert not found.is_synced

    NodeSink(found).replace(())
    assert not found.is_synced

    PodSink(found).replace(())
    assert not found.is_synced

    QuotaSink(found).replace(())
    assert found.is_synced


async def test_a_call_may_wait_for_the_first_lists():
    found = make_cache(sync_wait_s=0.01)
    assert not await found.wait_synced()

    NodeSink(found).replace(())
    PodSink(found).replace(())
    QuotaSink(found).replace(())
    assert await found.wait_synced()


def test_a_bound_pod_holds_what_its_record_says(cache):
    PodSink(cache).apply(added(bound(SHARE)))

    assert memory_used(cache) == [3_000, 0]
    assert_books_are_right(cache)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(deleted(bound(SHARE)), id="it is deleted"),
        pytest.param(modified(bound(SHARE, phase="Succeeded")), id="it succeeded"),
        pytest.param(modified(bound(SHARE, phase="Failed")), id="it failed"),
    ],
)
def test_a_pod_frees_its_hold_when(cache, event):
    PodSink(cache).apply(added(bound(SHARE)))

    PodSink(cache).apply(event)

    assert memory_used(cache) == [0, 0]
    assert cache.pod("uid-1") is None


def test_a_pod_that_is_being_deleted_still_holds_its_devices(cache):
    pod = bound(SHARE)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    PodSink(cache).apply(added(pod))

    assert memory_used(cache) == [3_000, 0]


def test_the_hold_shrinks_when_the_init_phase_is_over(cache):
    pod = bound(allocation=allocation_with_init())

    PodSink(cache).apply(added(pod))
    assert memory_used(cache) == [10_000, 0]

    PodSink(cache).apply(modified(initialized(pod)))
    assert memory_used(cache) == [4_000, 0]


def test_a_restart_sees_that_the_init_phase_is_over(cache):
    PodSink(cache).replace((initialized(bound(allocation=allocation_with_init())),))

    assert memory_used(cache) == [4_000, 0]


def test_a_pod_on_a_node_that_is_not_known_yet_counts_when_it_comes():
    found = make_cache()
    PodSink(found).replace((bound(SHARE),))
    assert found.snapshot("node-a") is None

    NodeSink(found).replace((registered(),))

    assert memory_used(found) == [3_000]


def test_a_node_that_comes_back_finds_its_pods_booked(cache):
    PodSink(cache).apply(added(bound(SHARE)))
    node = registered(devices=make_devices(2))

    NodeSink(cache).apply(deleted(node))
    assert cache.snapshot("node-a") is None

    NodeSink(cache).apply(added(node))
    assert memory_used(cache) == [3_000, 0]


def test_a_long_list_of_pods_is_taken_in_slices_and_the_books_are_right_after_each():
    cache = make_cache()
    NodeSink(cache).replace((registered(devices=make_devices(2, slot_count=1_000)),))
    QuotaSink(cache).replace(())
    pods = tuple(bound(make_share("card-0", memory_mib=1), uid=f"u{n}") for n in range(120))

    seen = []
    for _ in PodSink(cache).replace_in_slices(pods):
        assert_books_are_right(cache)
        assert not cache.is_synced
        seen.append(memory_used(cache)[0])

    assert seen == [50, 100]
    assert cache.is_synced
    assert memory_used(cache) == [120, 0]


def test_what_is_not_in_a_list_goes_when_it_was_taken_to_its_end(cache):
    PodSink(cache).replace((bound(SHARE, uid="gone"),))

    slices = PodSink(cache).replace_in_slices(tuple(waiting(f"u{n}") for n in range(50)))
    next(slices)
    assert memory_used(cache) == [3_000, 0]

    assert list(slices) == []
    assert memory_used(cache) == [0, 0]


def test_of_nodes_that_are_gone_nothing_is_kept():
    found = make_cache()
    for number in range(50):
        node = registered(f"node-{number}")
        NodeSink(found).apply(added(node))
        PodSink(found).apply(added(bound(SHARE, node_name=f"node-{number}")))
        PodSink(found).apply(deleted(bound(SHARE)))
        NodeSink(found).apply(deleted(node))

    assert found.snapshots() == ()
    assert not found.freed._last_by_node


def test_a_node_that_is_not_in_the_list_is_gone(cache):
    NodeSink(cache).replace((registered(),))

    assert [node.node_name for node in cache.snapshots()] == ["node-a"]


def test_nodes_are_known_in_the_order_in_which_they_are_asked_for(cache):
    assert list(cache.known(("node-b", "node-z", "node-a"))) == ["node-b", "node-a"]


def test_a_lost_delete_is_healed_by_the_next_list(cache):
    """Field report d 12: a pod with 8 × 80000 MiB vanished without an event."""
    shares = [make_share(f"card-{n}", memory_mib=80_000) for n in range(8)]
    NodeSink(cache).apply(added(registered(devices=make_devices(8, memory_mib=80_000))))
    PodSink(cache).apply(added(bound(*shares)))
    assert memory_used(cache) == [80_000] * 8

    PodSink(cache).replace(())

    assert memory_used(cache) == [0] * 8


def test_a_pod_of_the_same_name_is_another_pod(cache):
    PodSink(cache).apply(added(bound(SHARE, name="same")))
    PodSink(cache).apply(added(bound(SHARE, uid="uid-2", name="same")))

    PodSink(cache).apply(deleted(bound(SHARE, name="same")))

    assert memory_used(cache) == [3_000, 0]


def test_news_older_than_the_binding_does_not_undo_it(cache):
    PodSink(cache).apply(added(bound(SHARE)))

    PodSink(cache).apply(modified(waiting()))

    assert memory_used(cache) == [3_000, 0]


def test_a_pod_without_a_record_holds_nothing(cache):
    PodSink(cache).apply(added(waiting(node_name="node-a")))

    assert memory_used(cache) == [0, 0]


def cut_short(pod):
    """The pod with a record that ends in the middle, after the card was named."""
    annotations = dict(pod["metadata"]["annotations"])
    annotations[wire.POD_ALLOCATION] = annotations[wire.POD_ALLOCATION][:-5]
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def free_cards(cache):
    return [not usage.slots_used for usage in cache.snapshot("node-a").usages]


def test_a_card_that_an_unreadable_record_names_is_given_to_nobody_else(cache, logs):
    """Project-HAMi/HAMi#2959: such a pod was ignored, so that its card looked free."""
    pod = cut_short(bound(SHARE))

    PodSink(cache).apply(added(pod))
    PodSink(cache).apply(modified(pod))

    assert cache.snapshot("node-a").usages[0].exclusive_count == 1
    assert free_cards(cache) == [False, True]
    assert [entry["event"] for entry in logs] == ["allocation unreadable"]

    PodSink(cache).apply(modified(bound(SHARE)))
    assert memory_used(cache) == [3_000, 0]
    assert_books_are_right(cache)

    PodSink(cache).apply(deleted(pod))
    assert free_cards(cache) == [True, True]


def test_a_record_that_is_spoilt_later_leaves_the_pod_what_it_held(cache):
    PodSink(cache).apply(added(bound(SHARE)))

    for _ in range(2):
        PodSink(cache).apply(modified(cut_short(bound(SHARE))))

    assert memory_used(cache) == [3_000, 0]
    assert_books_are_right(cache)


def test_a_record_that_was_copied_from_another_pod_holds_nothing(cache):
    pod = bound(allocation=make_allocation(SHARE, uid="another"))

    PodSink(cache).apply(added(pod))

    assert free_cards(cache) == [True, True]


def test_records_that_cannot_be_read_are_counted_also_where_they_name_no_card():
    registry = CollectorRegistry()
    cache = ClusterCache(settings=SchedSettings(), clock=Clock(), registry=registry)
    of_no_card = bound(SHARE, uid="uid-2")
    of_no_card["metadata"]["annotations"] = {wire.POD_ALLOCATION: "?"}

    cache.take_pods([cut_short(bound(SHARE)), of_no_card, waiting("uid-3")])

    assert registry.get_sample_value("hamid_sched_malformed_pods") == 2


def test_a_malformed_registration_is_logged_once_and_counts_as_no_device(cache, logs):
    broken = node_object("node-a", annotations={wire.NODE_REGISTER: "[{]"})

    NodeSink(cache).apply(modified(broken))
    NodeSink(cache).apply(modified(broken))

    assert cache.snapshot("node-a").usages == ()
    assert [entry["event"] for entry in logs] == ["node registration malformed"]
    assert set(cache.node_problems()) == {"node-a"}

    NodeSink(cache).apply(modified(registered()))

    assert len(cache.snapshot("node-a").usages) == 1
    assert cache.node_problems() == {}


def test_a_cordon_is_live(cache):
    NodeSink(cache).apply(modified(registered(devices=make_devices(2), cordoned=["card-1"])))

    assert cache.snapshot("node-a").cordoned == {"card-1"}


def test_an_ill_device_is_seen(cache):
    NodeSink(cache).apply(modified(registered(devices=make_devices(2, is_healthy=False))))

    assert not cache.snapshot("node-a").usages[0].device.is_healthy


def test_what_a_node_says_of_other_things_changes_nothing(cache):
    before = cache.snapshot("node-a")
    node = registered(devices=make_devices(2))
    node["metadata"]["labels"] = {"x": "y"}

    NodeSink(cache).apply(modified(node))

    assert cache.snapshot("node-a") is before


def test_a_node_can_be_looked_at_as_if_nobody_held_anything(cache):
    PodSink(cache).apply(added(bound(SHARE)))

    emptied = cache.emptied("node-a")

    assert memory_used(cache) == [3_000, 0]
    assert [usage.memory_used_mib for usage in emptied.usages] == [0, 0]
    assert cache.emptied("node-z") is None


def test_a_reservation_holds_until_its_term(cache, clock, assert_logged):
    cache.assume(make_allocation(SHARE))
    assert memory_used(cache) == [3_000, 0]

    clock.advance(30)

    assert memory_used(cache) == [0, 0]
    assert_logged("reservation expired", pod_uid="uid-1", stage="reserved")


def test_a_new_reservation_replaces_the_one_before_even_on_another_node(cache):
    cache.assume(make_allocation(SHARE))

    cache.assume(make_allocation(SHARE, node_name="node-b"))

    assert memory_used(cache) == [0, 0]
    assert memory_used(cache, "node-b") == [3_000]


def test_a_forgotten_reservation_holds_nothing(cache):
    cache.assume(make_allocation(SHARE))

    cache.forget("uid-1")

    assert memory_used(cache) == [0, 0]
    assert cache.reservation("uid-1") is None


def test_a_bound_pod_is_counted_once_though_it_was_reserved(cache):
    PodSink(cache).apply(added(waiting()))
    cache.assume(make_allocation(SHARE))

    PodSink(cache).apply(modified(bound(SHARE)))

    assert memory_used(cache) == [3_000, 0]
    assert cache.reservation("uid-1") is None


def test_a_pod_bound_elsewhere_leaves_its_reservation(cache):
    cache.assume(make_allocation(SHARE))
    allocation = make_allocation(make_share("card-0", memory_mib=500), node_name="node-b")

    PodSink(cache).apply(added(bound(node_name="node-b", allocation=allocation)))

    assert memory_used(cache) == [0, 0]
    assert memory_used(cache, "node-b") == [500]


def test_a_pod_bound_without_us_leaves_its_reservation(cache):
    cache.assume(make_allocation(SHARE))

    PodSink(cache).apply(added(waiting(node_name="node-b")))

    assert memory_used(cache) == [0, 0]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda cache: PodSink(cache).apply(deleted(waiting())), id="by an event"),
        pytest.param(lambda cache: PodSink(cache).replace(()), id="by its absence from a list"),
    ],
)
def test_a_pod_that_is_gone_leaves_its_reservation(cache, end):
    PodSink(cache).apply(added(waiting()))
    cache.assume(make_allocation(SHARE))

    end(cache)

    assert memory_used(cache) == [0, 0]


def test_what_was_sent_outlives_the_ordinary_term(cache, clock):
    cache.assume_sent(make_allocation(SHARE))
    clock.advance(599)
    assert cache.reservation("uid-1").stage is Stage.SENT

    cache.confirm("uid-1")
    clock.advance(599)
    assert cache.reservation("uid-1").stage is Stage.BOUND

    clock.advance(1)
    assert memory_used(cache) == [0, 0]


def test_confirming_what_is_not_reserved_does_nothing(cache):
    cache.confirm("uid-1")

    assert cache.reservations() == ()


async def test_a_call_waits_for_the_pod_to_be_shown(cache):
    async with asyncio.TaskGroup() as group:
        found = group.create_task(cache.wait_for_pod("uid-1"))
        await asyncio.sleep(0)
        PodSink(cache).apply(added(waiting("uid-0")))
        await asyncio.sleep(0)
        PodSink(cache).apply(added(waiting()))

    assert found.result().pod_uid == "uid-1"


async def test_a_pod_that_is_never_shown_is_waited_for_in_vain():
    found = make_cache(pod_wait_s=0.01)

    assert await found.wait_for_pod("uid-1") is None


def test_a_new_term_begins_with_nothing(cache):
    PodSink(cache).apply(added(bound(SHARE)))
    cache.assume(make_allocation(SHARE, uid="uid-2"))

    cache.reset()

    assert not cache.is_synced
    assert cache.snapshots() == ()
    assert cache.pod_records() == ()
    assert cache.reservations() == ()


def test_pods_that_have_nothing_to_do_with_devices_are_not_kept(cache):
    PodSink(cache).replace(
        tuple(
            pod_object(container_object("main"), uid=f"u{n}", node_name="node-a") for n in range(3)
        )
    )

    assert cache.pod_records() == ()


@pytest.mark.parametrize(
    ("allocatable", "cards"),
    [
        pytest.param({"nvidia.com/gpu": "0"}, 0, id="a kubelet whose plugin is away offers none"),
        pytest.param({"nvidia.com/gpu": "10"}, 1, id="it offers slots"),
        pytest.param({"cpu": "8"}, 1, id="it says nothing of slots"),
    ],
)
def test_cards_count_while_the_kubelet_offers_slots(allocatable, cards):
    cache = make_cache()
    node = registered(devices=make_devices(1))

    cache.take_node({**node, "status": {"allocatable": allocatable}})

    snapshot = cache.snapshot("node-a")
    assert snapshot is not None
    assert len(snapshot.usages) == cards
    assert ("node-a" in cache.node_problems()) is not bool(cards)


def test_cards_are_back_with_the_device_plugin():
    cache = make_cache()
    node = registered(devices=make_devices(1))
    cache.take_node({**node, "status": {"allocatable": {"nvidia.com/gpu": "0"}}})

    cache.take_node({**node, "status": {"allocatable": {"nvidia.com/gpu": "10"}}})

    snapshot = cache.snapshot("node-a")
    assert snapshot is not None
    assert len(snapshot.usages) == 1
    assert cache.node_problems() == {}
