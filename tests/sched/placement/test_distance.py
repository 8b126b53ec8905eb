"""Bounds of what a change must come to; that they are right is for test_smallest_change to try."""

import pytest

from hamid.model.device import DeviceUuid
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.change import Amount
from hamid.sched.placement.distance import (
    HELPED,
    Distance,
    heals_any,
    smaller_cores,
    without_cores,
)
from hamid.sched.placement.refusal import Refusal


def lack(card, resource, requested=0, used=0, capacity=0):
    return Shortfall(
        resource=resource,
        requested=requested,
        used=used,
        capacity=capacity,
        device_uuid=DeviceUuid(card),
    )


def memory(card, gap):
    return lack(card, Resource.MEMORY_MIB, 30, 10 + gap, 40)


def cores(card, requested=50, used=70):
    return lack(card, Resource.CORE_PERCENT, requested, used, 100)


def distance(*shortfalls, needed=1, fitting=0, cards=4):
    count = Shortfall(
        resource=Resource.DEVICE_COUNT, requested=needed, used=cards - fitting, capacity=cards
    )
    return Distance(Refusal((count, *shortfalls)))


MEMORY, CORES = HELPED[Amount.MEMORY_MIB], HELPED[Amount.CORES]
SICK = lack("sick", Resource.HEALTH)
BUSY = lack("a", Resource.EXCLUSIVITY, 100, 1)
APART = lack("b", Resource.NUMA)


@pytest.mark.parametrize(
    ("needed", "bound"),
    [
        pytest.param(1, 5, id="the nearest card"),
        pytest.param(2, 7, id="the second nearest, where two are missing"),
        pytest.param(3, None, id="more than can ever do"),
    ],
)
def test_as_many_cards_must_do_as_are_missing(needed, bound):
    found = distance(memory("a", 7), memory("b", 5), SICK, needed=needed)

    assert found.missing_count == needed
    assert found.bound(MEMORY) == bound


def test_all_that_a_card_lacks_must_be_healed():
    assert distance(memory("a", 7), cores("a")).bound(MEMORY) is None
    assert distance(memory("a", 7), cores("a")).bound(without_cores(MEMORY)) == 7
    assert distance(memory("a", 7), cores("a")).bound(smaller_cores) == 20


@pytest.mark.parametrize(
    ("helped", "shortfall", "bound"),
    [
        pytest.param(MEMORY, APART, 1, id="which cards share a NUMA node changes with anything"),
        pytest.param(HELPED[Amount.MEMORY_PERCENT], memory("a", 9), 1, id="of percents, one"),
        pytest.param(HELPED[Amount.MEMORY_PERCENT], cores("a"), None, id="and never for cores"),
        pytest.param(CORES, cores("a"), 20, id="cores that are free"),
        pytest.param(CORES, cores("a", used=100), None, id="no cores that are not"),
        pytest.param(CORES, BUSY, 1, id="one percent less is no whole card"),
        pytest.param(CORES, lack("a", Resource.EXCLUSIVITY, 99, 1), None, id="held by another"),
        pytest.param(CORES, APART, 1, id="cores, and a NUMA node"),
        pytest.param(CORES, SICK, None, id="no cores heal a card"),
        pytest.param(without_cores(MEMORY), BUSY, 1, id="a whole card, without its cores"),
        pytest.param(
            without_cores(MEMORY), cores("a", used=100), None, id="all cores are promised"
        ),
        pytest.param(
            without_cores(MEMORY), lack("a", Resource.EXCLUSIVITY, 0, 1), None, id="held whole"
        ),
        pytest.param(heals_any({Resource.HEALTH}), SICK, 1, id="what is named"),
        pytest.param(heals_any({Resource.HEALTH}), BUSY, None, id="and nothing else"),
        pytest.param(heals_any(()), APART, 1, id="but a NUMA node"),
    ],
)
def test_what_heals_a_card_and_how_far_that_must_go_at_least(helped, shortfall, bound):
    assert distance(shortfall).bound(helped) == bound


def test_a_node_that_takes_the_container_has_no_bound():
    assert distance(fitting=1).bound(MEMORY) is None
