import pytest

from hamid.model.amounts import NO_AMOUNTS, CardAmounts, amounts_held, amounts_of
from hamid.model.names import ResourceNames
from tests.builders import make_device, make_hold

SMALL = CardAmounts(memory_mib=1_000, memory_ppm=500_000, core_percent=10, priority=1)
LARGE = CardAmounts(memory_mib=3_000, memory_ppm=250_000, core_percent=10, priority=2)


def test_amounts_add_up_and_of_two_the_greater_is_taken_one_by_one():
    both = SMALL + LARGE

    assert both == CardAmounts(memory_mib=4_000, memory_ppm=750_000, core_percent=20, priority=3)
    assert SMALL.most(LARGE) == CardAmounts(
        memory_mib=3_000, memory_ppm=500_000, core_percent=10, priority=2
    )


def test_what_is_beyond_another_is_never_below_zero():
    assert LARGE.beyond(SMALL) == CardAmounts(memory_mib=2_000, priority=1)
    assert SMALL.beyond(SMALL) == NO_AMOUNTS


@pytest.mark.parametrize(("ppm", "percent"), [(0, 0), (500_000, 50), (500_001, 51)])
def test_by_name_percents_are_whole_and_rounded_up(ppm, percent):
    names = ResourceNames(memory="example.com/mem")

    assert CardAmounts(memory_mib=7, memory_ppm=ppm, core_percent=8, priority=9).by_name(names) == {
        "example.com/mem": 7,
        "nvidia.com/gpumem-percentage": percent,
        "nvidia.com/gpucores": 8,
        "nvidia.com/priority": 9,
    }


def test_a_card_has_what_may_be_promised_and_a_hold_takes_memory_in_both_units():
    card = make_device(memory_mib=40_000, core_percent=200, slot_count=5)

    assert amounts_of(card) == CardAmounts(
        memory_mib=40_000, memory_ppm=1_000_000, core_percent=200, priority=5
    )
    assert amounts_held(make_hold(memory_mib=13_333, core_percent=7), card) == CardAmounts(
        memory_mib=13_333, memory_ppm=333_325, core_percent=7, priority=1
    )
