import pytest

from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.sched.placement.cardstates import CardStates
from hamid.sched.placement.formula import Formula
from hamid.sched.placement.typical import PPM, CardAsk, Shape, Typical
from tests.sched.builders import make_devices

WHOLE = CardAsk(device_count=1, memory=MemoryPercent(percent=100), core_percent=100)
HALF = CardAsk(device_count=1, memory=MemoryPercent(percent=50), core_percent=50)
PAIR = CardAsk(device_count=2, memory=MemoryPercent(percent=100), core_percent=100)


def used(*percents):
    """Cards of which so many percent of memory and cores are promised."""
    return [
        DeviceUsage(
            device=device,
            slots_used=int(percent > 0),
            memory_used_mib=device.memory_mib * percent // 100,
            core_used_percent=percent,
        )
        for device, percent in zip(make_devices(len(percents)), percents, strict=True)
    ]


def value(typical, percents, free, formula=None):
    """Of a node with such cards, in milli-cards."""
    states = CardStates(typical)
    cards = [states.of(usage, is_cordoned=False) for usage in used(*percents)]
    for card in cards:
        states.refresh(card)
    doubled = (formula or Formula(typical, states)).doubled(
        sum(card.lanes for card in cards),
        sum(card.space for card in cards),
        sum(card.plain for card in cards),
        free.cpu_milli,
        free.memory_mib,
    )
    return doubled / (2 * PPM)


@pytest.mark.parametrize("cpu_milli", [0, 2_999, 3_000, 6_500, 9_000, 30_000])
@pytest.mark.parametrize("memory_mib", [0, 500, 1_700, 100_000])
def test_the_value_is_the_formula_summed_up_shape_by_shape(cpu_milli, memory_mib):
    hosts = (
        HostAmount(cpu_milli=3_000, memory_mib=500),
        HostAmount(cpu_milli=1_000, memory_mib=800),
    )
    shapes = tuple(
        (Shape(cards=ask, host=host), weight)
        for ask, host, weight in (
            (WHOLE, hosts[0], 300_000),
            (HALF, hosts[0], 300_000),
            (HALF, hosts[1], 200_000),
            (PAIR, hosts[1], 200_000),
        )
    )
    percents = (0, 50, 0, 25)
    free = HostAmount(cpu_milli=cpu_milli, memory_mib=memory_mib)

    found = value(Typical(shapes=shapes), percents, free)

    assert found == pytest.approx(by_the_formula(shapes, percents, free), abs=0.01)


def by_the_formula(shapes, percents, free):
    """As the docstring of `fragmentation` has it."""
    spaces = [10 * (100 - percent) for percent in percents]
    total = 0.0
    for shape, weight in shapes:
        asked, count = 10 * shape.cards.core_percent, shape.cards.device_count
        fitting = [space for space in spaces if space >= asked]
        on_cards = sum(space // asked for space in spaces) if count == 1 else len(fitting) // count
        copies = min(
            on_cards,
            free.cpu_milli // shape.host.cpu_milli,
            free.memory_mib // shape.host.memory_mib,
        )
        unfit = sum(spaces) - sum(fitting) if copies else sum(spaces)
        stranded = sum(spaces) - copies * count * asked
        total += weight * (unfit + stranded) / 2
    return total / PPM


def test_amounts_that_are_free_of_no_host_any_more_are_forgotten(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.formula._HOSTS_KEPT", 4)
    host = HostAmount(cpu_milli=1_000, memory_mib=10)
    typical = Typical(shapes=((Shape(cards=HALF, host=host), PPM),))
    formula = Formula(typical, CardStates(typical))

    values = [
        value(typical, (0,), HostAmount(cpu_milli=500 * n, memory_mib=1_000 + n), formula)
        for n in (*range(9), *range(9))
    ]

    assert values[:9] == values[9:] == [1_000, 1_000, 250, 250, 0, 0, 0, 0, 0]
    assert len(formula._least_by_cpu) <= 4
    assert len(formula._least_by_memory) <= 4


def test_a_node_without_free_space_has_nothing_to_waste():
    typical = Typical(shapes=((Shape(cards=WHOLE), PPM),))

    assert value(typical, (100, 100), HostAmount()) == 0
