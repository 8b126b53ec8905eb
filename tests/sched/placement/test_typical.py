import pytest

from hamid.model.node import HostAmount
from hamid.model.quantities import WHOLE_CARD, MemoryMib
from hamid.model.request import ContainerKind, DeviceSelection
from hamid.sched.placement.typical import PPM, Arrivals, shapes_held, shapes_of
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_request,
    make_share,
    whole_card,
)


def asking(mib, uid, **overrides):
    return make_request(make_container(memory=MemoryMib(mib=mib)), uid=uid, **overrides)


def weight_of(arrivals, mib):
    return sum(
        weight
        for shape, weight in arrivals.typical.shapes
        if shape.cards.memory == MemoryMib(mib=mib)
    )


def observe(arrivals, count, mib, prefix="uid"):
    for number in range(count):
        arrivals.observe(asking(mib, f"{prefix}-{mib}-{number}"))


def test_before_the_first_pod_whole_cards_and_parts_of_them_are_typical():
    shapes = dict(Arrivals().typical.shapes)

    counts = {shape.cards.device_count for shape in shapes}

    assert sum(shapes.values()) == pytest.approx(PPM, abs=len(shapes))
    assert {1, 8} <= counts


def test_what_comes_most_weighs_most_and_the_prior_is_forgotten():
    arrivals = Arrivals()

    observe(arrivals, 300, 1_000)
    observe(arrivals, 100, 2_000)

    assert weight_of(arrivals, 1_000) > 2 * weight_of(arrivals, 2_000) > 0
    assert weight_of(arrivals, 1_000) + weight_of(arrivals, 2_000) > 0.95 * PPM


def test_a_pod_that_is_asked_about_again_counts_once():
    arrivals = Arrivals()
    observe(arrivals, 100, 1_000)

    for _ in range(500):
        arrivals.observe(asking(2_000, "waiting"))

    assert weight_of(arrivals, 2_000) < 0.05 * PPM


def test_what_came_long_ago_counts_less():
    arrivals = Arrivals()

    observe(arrivals, 9_000, 1_000)
    observe(arrivals, 9_000, 2_000)

    assert weight_of(arrivals, 2_000) > 3 * weight_of(arrivals, 1_000)


def test_the_typical_shapes_stay_the_same_while_the_same_mix_comes():
    arrivals = Arrivals()
    observe(arrivals, 400, 1_000)
    before = arrivals.typical

    observe(arrivals, 400, 1_000, prefix="later")

    assert arrivals.typical is before


def test_a_change_of_the_mix_makes_a_new_generation():
    arrivals = Arrivals()
    observe(arrivals, 400, 1_000)
    before = arrivals.typical.generation

    observe(arrivals, 400, 2_000)

    assert arrivals.typical.generation > before


def test_of_a_pod_with_init_containers_the_running_ones_are_its_shapes():
    request = make_request(
        make_container("prepare", kind=ContainerKind.INIT),
        whole_card("serve"),
        make_container("watch", kind=ContainerKind.SIDECAR),
        host=HostAmount(cpu_milli=4_000, memory_mib=1_000),
    )

    first, second = shapes_of(request)

    assert first.cards.core_percent == 100
    assert second.cards.core_percent == 0
    assert first.host == second.host == HostAmount(cpu_milli=2_000, memory_mib=500)


def test_models_make_a_shape_and_uuids_do_not():
    plain, by_uuid, by_model = (
        shapes_of(make_request(selection=selection))
        for selection in (
            DeviceSelection(),
            DeviceSelection(use_uuids=("card-a",)),
            DeviceSelection(use_models=("A100",)),
        )
    )

    assert plain == by_uuid != by_model


def test_a_running_pod_tells_its_shape_by_what_it_holds():
    allocation = make_allocation(make_share("a"), make_share("b"))

    (shape,) = shapes_held(allocation, HostAmount(cpu_milli=500))

    assert (shape.cards.device_count, shape.cards.memory) == (2, MemoryMib(mib=1_000))
    assert shape.host == HostAmount(cpu_milli=500)


def test_a_card_held_whole_is_one_asked_for_whole():
    held = make_allocation(make_share(memory_mib=39_999, core_percent=100))

    (shape,) = shapes_held(held, HostAmount())

    assert shape == shapes_of(make_request(whole_card()))[0]
    assert shape.cards.memory == WHOLE_CARD


def test_init_containers_of_a_running_pod_are_no_shape():
    assert shapes_held(make_allocation(kind=ContainerKind.INIT), HostAmount()) == ()


def test_of_shapes_without_end_the_rarest_are_forgotten(monkeypatch):
    monkeypatch.setattr("hamid.sched.placement.typical._SHAPES_KEPT", 16)
    arrivals = Arrivals()
    for number in range(200):
        arrivals.observe(asking(1_000, f"often-{number}"))
        arrivals.observe(asking(5_000 + number, f"once-{number}"))

    assert len(arrivals._weights) <= 17
    assert weight_of(arrivals, 1_000) > 0.9 * PPM


def test_equally_frequent_shapes_stand_in_an_order_that_does_not_hang_on_who_came_first():
    def with_prior(*amounts):
        shapes = [shapes_of(asking(mib, "uid"))[0] for mib in amounts]
        return Arrivals(prior=[(shape, 1.0) for shape in shapes]).typical.shapes

    assert with_prior(1_000, 2_000, 3_000) == with_prior(3_000, 1_000, 2_000)
