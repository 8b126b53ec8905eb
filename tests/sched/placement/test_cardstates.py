from dataclasses import replace

import pytest

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryPercent
from hamid.sched.placement.cardstates import CARD_SPACE, LANE_BITS, CardStates
from hamid.sched.placement.typical import CardAsk, Shape, Typical
from tests.sched.builders import make_device, make_share

QUARTER = CardAsk(device_count=1, memory=MemoryPercent(percent=25), core_percent=25)
WHOLE = CardAsk(device_count=1, memory=MemoryPercent(percent=100), core_percent=100)
PAIR = CardAsk(device_count=2, memory=MemoryPercent(percent=50), core_percent=50)
TYPICAL = Typical(shapes=tuple((Shape(cards=ask), 250_000) for ask in (QUARTER, WHOLE, PAIR)))


@pytest.fixture
def states():
    return CardStates(TYPICAL)


def usage(name="card-a", **overrides):
    device = make_device(name, memory_mib=16_000, slot_count=10, **overrides)
    return DeviceUsage(device=device)


def lanes(packed):
    return [packed >> (lane * LANE_BITS) & (1 << LANE_BITS) - 1 for lane in range(3)]


def test_an_empty_card_takes_so_many_of_each_ask(states):
    card = states.of(usage(), is_cordoned=False)

    assert lanes(card.copies) == [4, 1, 1]
    assert lanes(card.unfit) == [0, 0, 0]
    assert card.space == CARD_SPACE


def test_what_is_free_counts_as_unfit_for_asks_that_it_cannot_take(states):
    half = usage().with_share(make_share(memory_mib=8_000, core_percent=50))

    card = states.of(half, is_cordoned=False)

    assert lanes(card.copies) == [2, 0, 1]
    assert lanes(card.unfit) == [0, CARD_SPACE // 2, 0]


def test_slots_bound_the_copies(states):
    device = make_device(memory_mib=16_000, slot_count=3)

    card = states.of(DeviceUsage(device=device), is_cordoned=False)

    assert lanes(card.copies)[0] == 3


def test_cards_with_equal_amounts_are_one_state(states):
    one = states.of(usage("card-a"), is_cordoned=False)
    other = states.of(usage("card-b"), is_cordoned=False)

    assert one is other


def test_a_card_of_another_size_is_another_state(states):
    large = replace(make_device("card-b"), memory_mib=32_000)

    assert states.of(usage(), is_cordoned=False) is not states.of(
        DeviceUsage(device=large), is_cordoned=False
    )


@pytest.mark.parametrize(
    ("is_healthy", "is_cordoned"),
    [
        pytest.param(False, False, id="an unhealthy card"),
        pytest.param(True, True, id="a cordoned card"),
    ],
)
def test_nothing_comes_onto(states, is_healthy, is_cordoned):
    card = states.of(usage(is_healthy=is_healthy), is_cordoned=is_cordoned)

    assert card.space == card.copies == 0
    assert states.after(card, states.number(QUARTER)) is None


def test_a_card_becomes_what_its_usage_says(states):
    card = states.of(usage(), is_cordoned=False)

    after = states.after(card, states.number(QUARTER))

    right = usage().with_share(make_share(memory_mib=4_000, core_percent=25))
    assert after is states.of(right, is_cordoned=False)
    assert states.after(card, states.number(QUARTER)) is after


def test_a_card_in_use_becomes_nobodys_own(states):
    used = usage().with_share(make_share(memory_mib=1_000, core_percent=10))

    card = states.of(used, is_cordoned=False)

    assert states.after(card, states.number(WHOLE)) is None


def test_an_ask_keeps_its_number(states):
    number = states.number(PAIR)

    assert states.number(QUARTER) != number
    assert states.number(PAIR) == number
    assert states.ask(number) == PAIR
