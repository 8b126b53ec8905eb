from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.quota import Bound, Limit, Payer, QuotaResource
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.waking import Waiter, fitting
from tests.sched.builders import make_container, make_device, make_node, make_request


def waiter(uid, mib, *nodes, **overrides):
    return Waiter(
        request=make_request(make_container(memory=MemoryMib(mib=mib)), uid=uid, **overrides),
        node_names=nodes or ("node-a",),
    )


def names(waiters, *nodes, **options):
    return [request.pod_uid for request in one_round(waiters, *nodes, **options).fitting]


def one_round(waiters, *nodes, **options):
    return fitting(
        waiters, {node.node_name: node for node in nodes}, policies=Policies(), **options
    )


def test_as_many_as_there_is_room_for_are_named_the_first_first():
    waiters = [waiter(f"uid-{n}", 16_000) for n in range(5)]

    assert names(waiters, make_node()) == ["uid-0", "uid-1"]


def test_one_that_does_not_fit_lets_the_next_one_pass():
    waiters = [waiter("large", 50_000), waiter("small", 1_000)]

    assert names(waiters, make_node()) == ["small"]


def test_nobody_fits_where_he_may_not_go():
    waiters = [waiter("elsewhere", 1_000, "node-b"), waiter("gone", 1_000, "node-c")]

    assert names(waiters, make_node(), make_node("node-b")) == ["elsewhere"]


def test_the_host_must_have_room_too():
    asks = HostAmount(cpu_milli=600, memory_mib=10)
    waiters = [waiter(f"uid-{n}", 1_000, host=asks) for n in range(2)]
    node = make_node(host_free=HostAmount(cpu_milli=1_000, memory_mib=1_000))

    assert names(waiters, node) == ["uid-0"]


def test_a_quota_lets_in_as_many_as_it_has_room_for():
    limit = Limit(key="limits.x", resource=QuotaResource.MEMORY_MIB, hard=2_500)
    bounds = (Bound(quota_name="cards", limit=limit),)
    bound = [
        replace(waiter(f"uid-{n}", 1_000), payer=Payer(namespace="default"), bounds=bounds)
        for n in range(4)
    ]

    assert names([*bound, waiter("free", 1_000)], make_node()) == ["uid-0", "uid-1", "free"]


def test_a_quota_lets_in_as_many_as_it_has_room_for_where_a_percentage_is_asked():
    limit = Limit(key="limits.x", resource=QuotaResource.MEMORY_MIB, hard=25_000)
    half = make_container(memory=MemoryPercent(percent=25))
    bound = [
        Waiter(
            request=make_request(half, uid=f"uid-{n}"),
            node_names=["node-a"],
            payer=Payer(namespace="default"),
            bounds=(Bound(quota_name="cards", limit=limit),),
        )
        for n in range(3)
    ]

    assert names(bound, make_node()) == ["uid-0", "uid-1"]


def test_a_round_comes_to_an_end():
    waiters = [waiter(f"uid-{n}", 1_000 + n) for n in range(5)]

    assert names(waiters, make_node(), tries=3) == ["uid-0", "uid-1", "uid-2"]
    assert one_round(waiters, make_node(), tries=3).is_cut_short
    assert not one_round(waiters, make_node(), tries=5).is_cut_short


def test_one_that_has_begun_to_be_looked_at_is_looked_at_to_its_end():
    """However few tries there are: else it would be in the way of all behind it for ever."""
    nodes = [make_node(f"node-{n}") for n in range(9)]
    waiters = [waiter(uid, 50_000, *(node.node_name for node in nodes)) for uid in ("one", "two")]

    found = one_round(waiters, *nodes, tries=3)

    assert (found.fitting, found.in_vain, found.is_cut_short) == ((), {"one"}, True)


def test_those_are_in_vain_in_whose_way_is_nobody_who_waits():
    waiters = [
        waiter("too-large", 50_000),
        waiter("fits", 30_000),
        waiter("would-fit", 30_000),
        waiter("too-large-as-well", 50_000),
    ]

    found = one_round(waiters, make_node())

    assert [request.pod_uid for request in found.fitting] == ["fits"]
    assert found.in_vain == {"too-large"}


@given(
    asks=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    cards=st.lists(st.integers(1, 12), min_size=1, max_size=3),
)
def test_those_are_named_that_fit_one_after_another(asks, cards):
    nodes = {
        f"node-{n}": make_node(f"node-{n}", [make_device(memory_mib=mib * 1_000)])
        for n, mib in enumerate(cards)
    }
    waiters = [waiter(f"uid-{n}", mib * 1_000, *nodes) for n, mib in enumerate(asks)]

    found = names(waiters, *nodes.values())

    expected, free = [], list(cards)
    for number, mib in enumerate(asks):
        taken = next((n for n, left in enumerate(free) if left >= mib), None)
        if taken is not None:
            free[taken] -= mib
            expected.append(f"uid-{number}")
    assert found == expected


def test_a_host_that_is_overdrawn_keeps_nobody_away_who_asks_nothing_of_it():
    node = make_node(host_free=HostAmount(cpu_milli=-5, memory_mib=-5))

    assert names([waiter("uid", 1_000)], node) == ["uid"]
