from dataclasses import replace

import pytest

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryPercent
from hamid.model.shortfall import Resource
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


def lanes(card):
    """How many of each ask, what is unfit for it, what so many take: three asks each."""
    found = [card.lanes >> (lane * LANE_BITS) & (1 << LANE_BITS) - 1 for lane in range(9)]
    return found[:3], found[3:6], found[6:]


def refreshed(states, usage, *, is_cordoned=False):
    card = states.of(usage, is_cordoned=is_cordoned)
    states.refresh(card)
    return card


def test_an_empty_card_takes_so_many_of_each_ask(states):
    card = refreshed(states, usage())

    copies, unfit, taken = lanes(card)

    assert copies == [4, 1, 1]
    assert unfit == [0, 0, 0]
    assert taken == [CARD_SPACE, CARD_SPACE, CARD_SPACE // 2]
    assert card.space == CARD_SPACE


def test_what_is_free_counts_as_unfit_for_asks_that_it_cannot_take(states):
    half = usage().with_share(make_share(memory_mib=8_000, core_percent=50))

    copies, unfit, _ = lanes(refreshed(states, half))

    assert copies == [2, 0, 1]
    assert unfit == [0, CARD_SPACE // 2, 0]


def test_slots_bound_the_copies(states):
    device = make_device(memory_mib=16_000, slot_count=3)

    copies, _, _ = lanes(refreshed(states, DeviceUsage(device=device)))

    assert copies[0] == 3


def test_once_other_asks_are_typical_a_state_is_the_same_with_other_figures(states):
    number = states.number(QUARTER)
    card = refreshed(states, usage())
    after, step = states.after(card, number), states.step(card, number)

    states.adopt(Typical(shapes=((Shape(cards=WHOLE), 600_000), (Shape(cards=PAIR), 400_000))))
    again = refreshed(states, usage("card-b"))

    fresh = CardStates(
        Typical(shapes=((Shape(cards=WHOLE), 600_000), (Shape(cards=PAIR), 400_000)))
    )
    expected = refreshed(fresh, usage())
    assert again is card
    assert states.after(card, number) is after
    assert (card.lanes, card.space, card.plain) == (
        expected.lanes,
        expected.space,
        expected.plain,
    )
    assert states.step(card, number) == fresh.step(expected, fresh.number(QUARTER)) != step


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
    card = refreshed(states, usage(is_healthy=is_healthy), is_cordoned=is_cordoned)

    assert card.space == card.lanes == card.plain == 0
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


def test_states_and_devices_that_are_gone_are_forgotten(states, monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.cardstates._KEPT", 4)
    monkeypatch.setattr("hamid.sched.placement.cardstates._DEVICES_KEPT", 4)

    for mib in range(100, 2_000, 100):
        share = make_share(memory_mib=mib)
        refreshed(states, usage(f"card-{mib}").with_share(share))

    assert len(states._states) <= 4
    assert len(states._kind_by_uuid) <= 4


def test_a_step_is_the_difference_of_two_states(states):
    number = states.number(QUARTER)
    card = refreshed(states, usage())

    step = states.step(card, number)

    after = states.after(card, number)
    assert step == (
        after.lanes - card.lanes,
        after.space - card.space,
        after.plain - card.plain,
    )
    assert states.step(card, number) is step


def test_what_stands_against_an_ask_is_told_of_the_state(states):
    cordoned = refreshed(states, usage(), is_cordoned=True)
    ill = refreshed(states, usage(is_healthy=False))

    reasons = [states.reasons(card, states.number(QUARTER)) for card in (cordoned, ill)]

    assert [[found.resource for found in each.shortfalls] for each in reasons] == [
        [Resource.CORDON],
        [Resource.HEALTH],
    ]
    assert states.step(cordoned, states.number(QUARTER)) is None
