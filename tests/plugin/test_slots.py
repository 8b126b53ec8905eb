import pytest

from hamid.plugin.slots import preferred_slots, slot_device, slot_devices, slots
from tests.builders import make_device, make_devices, uuid


def slot(device, number):
    return f"{uuid(device)}-{number}"


ALL = tuple(slot(device, number) for device in (1, 2, 3) for number in range(12))


def test_each_device_has_as_many_slots_as_it_says_in_the_order_of_devices():
    ids = [s.slot_id for s in slots(make_devices(2, slot_count=2))]

    assert ids == [slot(1, 0), slot(1, 1), slot(2, 0), slot(2, 1)]


def test_a_slot_is_as_healthy_and_as_near_as_its_device():
    (found,) = slots([make_device(slot_count=1, is_healthy=False, numa_node=1)])

    assert (found.is_healthy, found.numa_node, found.device_uuid) == (False, 1, uuid(1))


def test_a_slot_id_is_short_enough_for_the_kubelet():
    ids = [s.slot_id for s in slots([make_device(slot_count=1000)])]

    assert max(map(len, ids)) <= 63


def test_a_slot_id_names_its_device():
    assert slot_device(slot(2, 11)) == uuid(2)
    assert slot_devices([slot(2, 11), slot(2, 3), slot(1, 0)]) == {uuid(1), uuid(2)}


@pytest.mark.parametrize(
    ("wanted", "available", "must_include", "chosen"),
    [
        pytest.param([1, 2], ALL, [], [(1, 0), (2, 0)], id="one slot of each wanted card"),
        pytest.param([2, 1], ALL, [], [(2, 0), (1, 0)], id="in the order of choice"),
        pytest.param(
            [1], (slot(1, 10), slot(1, 9)), [], [(1, 9)], id="the lowest number, as a number"
        ),
        pytest.param([1, 3], [slot(3, 4)], [], [(3, 4)], id="a card without slots stays empty"),
        pytest.param([1, 2], ALL, [(2, 7)], [(2, 7), (1, 0)], id="what must be in comes first"),
        pytest.param(
            [1, 2], ALL, [(3, 0)], [(3, 0), (1, 0)], id="a strange slot that must be in takes room"
        ),
        pytest.param(
            [1], ALL, [(3, 0), (3, 1)], [(3, 0), (3, 1)], id="nothing is left out that must be in"
        ),
        pytest.param([1], [], [], [], id="nothing available"),
    ],
)
def test_preferred_slots_are_those_of_the_wanted_cards(wanted, available, must_include, chosen):
    found = preferred_slots(
        [uuid(n) for n in wanted],
        available=available,
        must_include=[slot(*pair) for pair in must_include],
    )

    assert found == tuple(slot(*pair) for pair in chosen)


def test_ids_that_are_none_of_ours_do_no_harm():
    assert preferred_slots(
        [uuid(1)], available=["odd", "GPU-x-y", slot(1, 0)], must_include=[]
    ) == (slot(1, 0),)
