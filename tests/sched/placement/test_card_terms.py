"""The terms told are those by which the card was chosen: on random nodes, under every policy."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.model.shortfall import Resource
from hamid.sched.placement.card_terms import card_terms
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from tests.sched.builders import make_container, make_device, make_node, make_request

MEASURE = Fragmentation(Arrivals().typical)


def used(number, *, mib=0, cores=0, **device):
    return DeviceUsage(
        device=make_device(f"card-{number}", device_index=number, **device),
        memory_used_mib=mib,
        core_used_percent=cores,
        slots_used=int(bool(mib or cores)),
    )


def asking(mib=1_000, *, count=1, cores=0, **overrides):
    container = make_container(memory=MemoryMib(mib=mib), device_count=count, core_percent=cores)
    return make_request(container, **overrides)


def by(*names):
    return Policies(device=names)


def terms_of(request, node, policies=None):
    policies = policies or Policies()
    placed = place_on_node(request, node, policies=policies, measure=MEASURE)
    assert isinstance(placed, NodePlacement)
    return placed, card_terms(request, node, placed, policies=policies, measure=MEASURE)


def test_the_cost_of_the_chosen_card_is_that_of_its_node():
    node = make_node(usages=[used(0, mib=30_000), used(1)])

    placed, terms = terms_of(asking(8_000), node)

    (chosen,) = (each for each in terms if each.is_chosen)
    assert chosen.costs == {PolicyName.FRAGMENTATION: placed.cost[0]}


def test_a_card_that_would_not_do_has_what_it_lacks_instead():
    node = make_node(usages=[used(0, mib=39_500), used(1)])

    _, (full, free) = terms_of(asking(), node)

    assert (full.costs, [s.resource for s in full.lacking]) == ({}, [Resource.MEMORY_MIB])
    assert free.is_chosen
    assert free.lacking == ()


def test_under_mutex_a_used_card_lacks_being_alone():
    node = make_node(usages=[used(0, mib=100), used(1)])

    _, (taken, free) = terms_of(asking(), node, by(PolicyName.MUTEX, PolicyName.SPREAD))

    assert [s.resource for s in taken.lacking] == [Resource.EXCLUSIVITY]
    assert set(free.costs) == {PolicyName.SPREAD}


def test_later_containers_find_what_earlier_ones_were_given():
    containers = make_container("one"), make_container("two")
    request = make_request(*containers)
    _, terms = terms_of(request, make_node(usages=[used(0)]), by(PolicyName.BINPACK))

    assert [(t.container_name, t.usage.memory_used_mib) for t in terms] == [
        ("one", 0),
        ("two", 1_000),
    ]


def test_links_and_numa_are_told_of_the_best_set_with_a_card():
    usages = [used(n, numa_node=n // 2) for n in range(4)]
    links = ((0, 9, 1, 1), (9, 0, 1, 1), (1, 1, 0, 5), (1, 1, 5, 0))
    node = replace(make_node(usages=usages), links=links)

    _, terms = terms_of(asking(count=2), node, by(PolicyName.NUMA, PolicyName.TOPOLOGY_AWARE))

    assert [each.costs[PolicyName.NUMA] for each in terms] == [1, 1, 1, 1]
    assert [each.costs[PolicyName.TOPOLOGY_AWARE] for each in terms] == [0, 0, 1, 1]
    assert [each.is_chosen for each in terms] == [True, True, False, False]


@pytest.mark.parametrize(
    "policies",
    [
        Policies(),
        by(PolicyName.BINPACK),
        by(PolicyName.SPREAD),
        by(PolicyName.BINPACK, PolicyName.FRAGMENTATION),
    ],
    ids=str,
)
@given(
    held=st.lists(st.integers(0, 39_000), min_size=1, max_size=6),
    mib=st.integers(1, 20_000),
    count=st.integers(1, 2),
)
def test_no_card_that_was_passed_over_had_a_smaller_cost(policies, held, mib, count):
    node = make_node(usages=[used(n, mib=amount) for n, amount in enumerate(held)])
    request = asking(mib, count=count)
    placed = place_on_node(request, node, policies=policies, measure=MEASURE)
    if not isinstance(placed, NodePlacement):
        return

    terms = card_terms(request, node, placed, policies=policies, measure=MEASURE)

    chosen = [tuple(each.costs.values()) for each in terms if each.is_chosen]
    others = [tuple(each.costs.values()) for each in terms if not each.is_chosen and each.costs]
    assert len(chosen) == count
    assert all(max(chosen) <= other for other in others)
