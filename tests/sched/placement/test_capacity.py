"""How many more fit: as many as can be placed one after another."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.placement.capacity import (
    Counting,
    capacity,
    freed,
    remaining,
    request_held,
    resettled,
)
from hamid.sched.placement.place import (
    NodePlacement,
    Placement,
    place,
    place_on_node,
    with_allocation,
)
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_devices,
    make_node,
    make_request,
    make_share,
    whole_card,
)
from tests.sched.placement.test_smallest_change import clusters, used

SPREAD = Policies(node=(PolicyName.SPREAD,), device=(PolicyName.SPREAD,))


def asking(mib=3_000, *, cores=0, count=1, **overrides):
    container = make_container(memory=MemoryMib(mib=mib), core_percent=cores, device_count=count)
    return make_request(container, **overrides)


def counts(request, *nodes):
    found = capacity(request, nodes, policies=Policies())
    assert found.pod_count == sum(node.pod_count for node in found.nodes)
    return {node.node_name: node.pod_count for node in found.nodes}


def placed_count(request, node):
    """By placing until the node refuses; spread evenly, which for equal shares is the most."""
    count = 0
    while isinstance(found := place_on_node(request, node, policies=SPREAD), NodePlacement):
        node = with_allocation(node, found.allocation("uid-1"))
        count += 1
    return count


def test_memory_cores_or_slots_are_the_first_to_end():
    node = make_node(devices=make_devices(2))

    assert counts(asking(15_000), node) == {"node-a": 4}
    assert counts(asking(100, cores=30), node) == {"node-a": 6}
    assert counts(asking(1), node) == {"node-a": 20}
    assert counts(make_request(whole_card()), node) == {"node-a": 2}


def test_nodes_that_take_most_come_first_and_those_that_take_none_do_not_appear():
    nodes = [
        make_node("a", usages=[used(mib=39_000)]),
        make_node("b"),
        make_node("c", devices=make_devices(2)),
        make_node("d", devices=[]),
    ]

    assert list(counts(asking(20_000), *nodes).items()) == [("c", 4), ("b", 2)]


def test_pods_of_several_cards_need_different_ones():
    node = make_node(usages=[used("a"), used("b", mib=20_000), used("c", mib=20_000)])

    assert counts(asking(10_000, count=2), node) == {"node-a": 4}
    assert counts(asking(10_000, count=3), node) == {"node-a": 2}


def test_pods_bound_to_a_numa_node_are_counted_apart():
    usages = [used(f"c{n}", numa_node=n // 3) for n in range(6)]

    assert counts(asking(40_000, count=2), make_node(usages=usages)) == {"node-a": 3}
    bound = asking(40_000, count=2, is_numa_bound=True)
    assert counts(bound, make_node(usages=usages)) == {"node-a": 2}
    assert counts(bound, make_node(usages=[used("a"), used("b")])) == {}


def test_a_mutex_takes_unused_cards_only():
    node = make_node(usages=[used("a"), used("b", mib=10)])

    assert counts(asking(device_policies=(PolicyName.MUTEX,)), node) == {"node-a": 1}


@pytest.mark.parametrize("containers", [1, 2])
def test_a_mutex_for_nodes_takes_one_pod_on_each_that_nobody_uses(containers):
    request = make_request(
        *[make_container(f"c{n}", memory=MemoryMib(mib=1)) for n in range(containers)],
        node_policies=(PolicyName.MUTEX,),
    )
    nodes = [make_node("idle", devices=make_devices(2)), make_node("used", usages=[used(mib=10)])]

    assert counts(request, *nodes) == {"idle": 1}


def test_the_host_bounds_the_count():
    node = make_node(host_free=HostAmount(cpu_milli=5_000, memory_mib=9_000))

    assert counts(asking(host=HostAmount(cpu_milli=2_000)), node) == {"node-a": 2}
    assert counts(asking(host=HostAmount(memory_mib=3_000)), node) == {"node-a": 3}
    drawn = make_node(host_free=HostAmount(cpu_milli=-5))
    assert counts(asking(host=HostAmount(cpu_milli=2_000)), drawn) == {}


def test_pods_of_several_containers_are_placed_until_the_node_refuses():
    two = make_request(
        make_container("a", memory=MemoryMib(mib=15_000)),
        make_container("b", memory=MemoryMib(mib=5_000)),
    )

    assert counts(two, make_node()) == {"node-a": 2}


def test_what_remains_is_without_drained_nodes_and_lost_cards():
    nodes = [make_node("a", devices=make_devices(2)), make_node("b")]

    left = remaining(nodes, without_nodes={"b"}, without_cards={"card-1"})

    assert counts(asking(40_000), *left) == {"a": 1}


def test_a_node_is_freed_of_what_a_pod_holds():
    allocation = make_allocation(make_share("card-0", memory_mib=7, core_percent=100))
    node = make_node(devices=make_devices(2))

    assert freed(with_allocation(node, allocation), allocation) == node


def test_pods_that_must_leave_go_where_room_is_and_the_rest_is_named():
    requests = [
        asking(mib, uid=f"uid-{mib}", pod_name=f"p{mib}") for mib in (10_000, 30_000, 15_000)
    ]

    after = resettled(requests, [make_node()], policies=Policies(), arrivals=Arrivals())

    assert [request.pod_name for request in after.homeless] == ["p15000"]
    assert after.nodes[0].usages[0].slots_used == 2


@given(clusters(), st.lists(st.sampled_from([1, 3, 7]), max_size=4), st.booleans())
def test_they_go_where_they_would_be_placed_one_after_another(drawn, sizes, is_exclusive):
    nodes = [replace(node, node_name=f"n{number}") for number, node in enumerate(drawn)]
    requests = [
        asking(mib, cores=100 * is_exclusive, uid=f"uid-{n}") for n, mib in enumerate(sizes)
    ]

    after = resettled(requests, nodes, policies=SPREAD, arrivals=Arrivals())

    by_name = {node.node_name: node for node in nodes}
    homeless = 0
    for request in sorted(requests, key=lambda r: r.requests[0].memory.mib, reverse=True):
        outcome = place(request, by_name.values(), policies=SPREAD)
        if isinstance(outcome, Placement):
            node = by_name[outcome.best.node_name]
            by_name[node.node_name] = with_allocation(node, outcome.best.allocation("x"))
        else:
            homeless += 1
    assert after.nodes == tuple(by_name.values())
    assert len(after.homeless) == homeless


@given(clusters(), st.integers(1, 7))
def test_a_node_that_has_changed_is_counted_anew(drawn, mib):
    nodes = [replace(node, node_name=f"n{number}") for number, node in enumerate(drawn)]
    request = asking(mib)
    counting = Counting(request, Policies())
    before = counting.over(nodes)
    found = place(request, nodes, policies=Policies())
    if isinstance(found, Placement):
        best = found.best
        nodes = [
            with_allocation(n, best.allocation("x")) if n.node_name == best.node_name else n
            for n in nodes
        ]

    assert counting.over(nodes) == capacity(request, nodes, policies=Policies())
    assert counting.over(nodes).pod_count == before.pod_count - isinstance(found, Placement)


def test_a_pod_that_runs_would_ask_for_what_it_has():
    allocation = make_allocation(
        make_share(memory_mib=7, core_percent=9), make_share("b", memory_mib=7)
    )

    request = request_held(allocation, namespace="ns", pod_name="p")

    assert request.pod_key == "ns/p"
    assert request.requests == (
        make_container(device_count=2, memory=MemoryMib(mib=7), core_percent=9),
    )


@given(st.integers(1, 9), st.sampled_from([0, 30, 60, 100]), st.integers(1, 3), clusters())
def test_so_many_can_be_placed_one_after_another(mib, cores, count, nodes):
    request = asking(mib, cores=cores, count=count)
    found = counts(request, *nodes)

    for node in nodes:
        placed = placed_count(request, node)
        counted = found.get(node.node_name, 0)
        assert placed == counted if count == 1 else placed <= counted


def test_pods_that_must_leave_need_room_on_the_host_too():
    host = HostAmount(cpu_milli=3_000)
    two = [make_container(name, memory=MemoryMib(mib=100)) for name in ("a", "b")]
    requests = [asking(100, host=host), make_request(*two, host=host), asking(100, host=host)]
    node = make_node(host_free=HostAmount(cpu_milli=7_000))

    after = resettled(requests, [node], policies=Policies(), arrivals=Arrivals())

    assert len(after.homeless) == 1
    assert after.nodes[0].host_free == HostAmount(cpu_milli=1_000)


def test_a_share_without_memory_counts_by_its_slots():
    allocation = make_allocation(make_share(memory_mib=0))
    request = request_held(allocation, namespace="ns", pod_name="p")

    assert counts(request, make_node()) == {"node-a": 10}
