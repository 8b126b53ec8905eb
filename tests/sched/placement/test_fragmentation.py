from dataclasses import replace

import pytest

from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryPercent
from hamid.model.request import DeviceSelection
from hamid.sched.placement.fragmentation import NO_CARDS, Fragmentation
from hamid.sched.placement.place import NodePlacement, place, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import PPM, CardAsk, Shape, Typical
from tests.sched.builders import make_container, make_devices, make_node, make_request

WHOLE = CardAsk(device_count=1, memory=MemoryPercent(percent=100), core_percent=100)
HALF = CardAsk(device_count=1, memory=MemoryPercent(percent=50), core_percent=50)
PAIR = CardAsk(device_count=2, memory=MemoryPercent(percent=100), core_percent=100)


def typical(*asks, cpu_milli=0):
    host = HostAmount(cpu_milli=cpu_milli)
    weight = PPM // len(asks)
    return Typical(shapes=tuple((Shape(cards=ask, host=host), weight) for ask in asks))


def used(*percents):
    """Cards of which so many percent of memory and cores are promised."""
    return [
        DeviceUsage(
            device=device,
            slots_used=int(percent > 0),
            memory_used_mib=device.memory_mib * percent // 100,
            core_used_percent=percent,
            exclusive_count=int(percent == 100),
        )
        for device, percent in zip(make_devices(len(percents)), percents, strict=True)
    ]


def asking(percent, **overrides):
    container = make_container(memory=MemoryPercent(percent=percent), core_percent=percent)
    return make_request(container, **overrides)


def waste(measure, *percents, **node):
    """Cards of the node, in thousandths, that are free and of no use."""
    return measure.value(make_node(usages=used(*percents), **node))


@pytest.mark.parametrize(
    ("asks", "percents", "wasted"),
    [
        pytest.param([WHOLE], [0, 0], 0, id="empty cards are all of use"),
        pytest.param([WHOLE], [100, 100], 0, id="full cards have nothing to waste"),
        pytest.param([WHOLE], [40, 0], 600, id="what no typical pod can take is wasted"),
        pytest.param([HALF], [40, 0], 50, id="half counted: one more fits, but not two"),
        pytest.param([WHOLE, HALF], [50, 0], 250, id="shapes count by how often they come"),
        pytest.param([PAIR], [0, 0, 0], 500, id="a card without a partner is half wasted"),
        pytest.param([PAIR], [0], 1_000, id="too few cards for a container of several"),
    ],
)
def test_the_value_of_a_node(asks, percents, wasted):
    assert waste(Fragmentation(typical(*asks)), *percents) == wasted


def test_cards_that_the_host_has_no_cpu_for_are_half_wasted_and_all_without_any():
    measure = Fragmentation(typical(WHOLE, cpu_milli=4_000))

    values = [
        waste(measure, 0, 0, host_free=HostAmount(cpu_milli=cpu, memory_mib=1_000))
        for cpu in (8_000, 7_999, 3_999)
    ]

    assert values == [0, 500, 2_000]


def test_what_is_left_of_memory_without_cores_is_wasted():
    (usage,) = used(0)
    memory_only = DeviceUsage(device=usage.device, slots_used=1, core_used_percent=100)

    value = Fragmentation(typical(HALF)).value(make_node(usages=[memory_only]))

    assert value == 500


def test_a_card_held_whole_has_no_free_space_however_little_memory_its_holder_has():
    (usage,) = used(0)
    held = DeviceUsage(
        device=usage.device,
        slots_used=1,
        memory_used_mib=1,
        core_used_percent=100,
        exclusive_count=1,
    )

    assert Fragmentation(typical(HALF)).value(make_node(usages=[held])) == 0


@pytest.mark.parametrize("spoilt", [{"cordoned": ("card-0",)}, {}], ids=["cordoned", "unhealthy"])
def test_cards_that_take_nothing_do_not_count(spoilt):
    (usage,) = used(0)
    if not spoilt:
        usage = DeviceUsage(device=make_devices(1, is_healthy=False)[0])

    assert Fragmentation(typical(WHOLE)).value(make_node(usages=[usage], **spoilt)) == 0


def test_a_part_of_a_card_goes_where_it_leaves_whole_cards_whole():
    node = make_node(usages=used(0, 40, 0))

    found = place_on_node(
        asking(50), node, policies=Policies(), measure=Fragmentation(typical(WHOLE, HALF))
    )

    assert isinstance(found, NodePlacement)
    assert [s.device_uuid for s in found.containers[0].shares] == ["card-1"]


def test_a_pod_with_much_cpu_goes_where_no_cards_need_it():
    host = HostAmount(cpu_milli=8_000, memory_mib=1_000)
    nodes = [
        make_node("full", usages=used(0, 100, 100), host_free=host),
        make_node("idle", usages=used(0, 0, 0), host_free=host),
    ]
    measure = Fragmentation(typical(WHOLE, cpu_milli=2_000))

    found = place(
        asking(100, host=HostAmount(cpu_milli=6_000)), nodes, policies=Policies(), measure=measure
    )

    assert found.best.node_name == "full"


def test_a_pod_without_cards_can_be_chosen_for_too():
    measure = Fragmentation(typical(WHOLE, cpu_milli=4_000))
    host = HostAmount(cpu_milli=8_000, memory_mib=1_000)
    full, idle = (
        measure.view(make_node(usages=used(percent, percent), host_free=host))
        for percent in (100, 0)
    )

    costs = [measure.choose(v, NO_CARDS, HostAmount(cpu_milli=4_000)).score for v in (full, idle)]

    assert costs[0] > costs[1]


def test_a_bound_is_never_below_the_score():
    measure = Fragmentation(typical(WHOLE, HALF, cpu_milli=3_000))
    number = measure.number(HALF)
    for cpu_milli in (2_000, 5_000, 9_000):
        free = HostAmount(cpu_milli=cpu_milli, memory_mib=1_000)
        view = measure.view(make_node(usages=used(0, 50, 25), host_free=free))
        asked = HostAmount(cpu_milli=2_000)

        assert measure.choose(view, number, asked).score <= measure.bound(view, number) + 78 * 2_000


def test_where_no_card_fits_there_is_no_choice():
    measure = Fragmentation(typical(WHOLE))
    view = measure.view(make_node(usages=used(10, 10)))

    assert measure.choose(view, measure.number(WHOLE), HostAmount()) is None
    assert measure.choose(view, measure.number(PAIR), HostAmount()) is None


def test_models_that_are_not_allowed_are_of_no_use_to_a_shape():
    other = CardAsk(
        device_count=1,
        memory=MemoryPercent(percent=100),
        core_percent=100,
        selection=DeviceSelection(use_models=("H100",)),
    )

    assert waste(Fragmentation(typical(WHOLE, other)), 0) == 500


def test_other_typical_shapes_give_the_figures_of_a_measure_that_never_knew_any_else():
    host = HostAmount(cpu_milli=9_000, memory_mib=1_000)
    node = make_node(usages=used(0, 50, 25), host_free=host)
    measure = Fragmentation(typical(WHOLE, PAIR))
    view = measure.view(node)
    before = view.value, measure.choose(view, measure.number(HALF), HostAmount())

    other = replace(typical(HALF, WHOLE, cpu_milli=3_000), generation=1)
    measure.adopt(other)
    again = measure.refreshed(view)

    fresh = Fragmentation(other)
    expected = fresh.view(node)
    assert again is view is measure.view(node)
    assert again.value == expected.value
    assert measure.choose(again, measure.number(HALF), HostAmount()) == fresh.choose(
        expected, fresh.number(HALF), HostAmount()
    )
    assert before != (again.value, measure.choose(again, measure.number(HALF), HostAmount()))


def test_views_that_no_node_is_in_any_more_are_forgotten(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.fragmentation._KEPT", 4)
    measure = Fragmentation(typical(WHOLE, HALF, cpu_milli=1_000))

    for cpu in range(1, 20):
        host = HostAmount(cpu_milli=1_000 * cpu, memory_mib=cpu)
        view = measure.view(make_node(usages=used(0, 50), host_free=host))
        assert measure.choose(view, measure.number(HALF), HostAmount(cpu_milli=500)) is not None

    assert len(measure._views) <= 4


def test_a_measure_says_when_it_remembers_too_much(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.fragmentation.ANSWERS_KEPT", 20)
    measure = Fragmentation(typical(WHOLE))
    node = make_node(usages=used(0, 50))

    was_full = []
    for percent in range(1, 11):
        was_full.append(measure.is_full)
        ask = CardAsk(device_count=1, memory=MemoryPercent(percent=percent), core_percent=0)
        for _ in range(9):  # what is asked again is remembered already
            measure.choose(measure.view(node), measure.number(ask), HostAmount())

    assert was_full[1:3] == [False, False]
    assert measure.is_full
