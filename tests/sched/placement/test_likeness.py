from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from hamid.model.request import DeviceSelection
from hamid.sched.placement.likeness import kinds_of_devices, row_ends, unlike
from tests.sched.builders import make_container, make_device, make_node, make_request, whole_card


@given(st.lists(st.sampled_from("abc"), max_size=7), st.integers(0, 7))
def test_of_sets_that_are_alike_the_first_is_tried(states, count):
    found = list(unlike(range(len(states)), states, count))

    firsts = {}
    for each in combinations(range(len(states)), count):
        firsts.setdefault(tuple(sorted(states[index] for index in each)), each)
    assert found == list(firsts.values())


def test_a_row_is_of_containers_that_ask_for_the_same():
    request = make_request(make_container("a"), make_container("b"), whole_card("c"))

    assert row_ends(request) == (2, 2, 3)


def test_devices_stand_in_for_each_other_unless_it_matters_which_is_taken():
    devices = [make_device(f"card-{n}", device_index=n, numa_node=n % 2) for n in range(3)]
    node = make_node(devices=[*devices, make_device("large", device_index=3, memory_mib=80_000)])
    request = make_request()
    named = replace(request, selection=DeviceSelection(avoid_uuids=("card-0",)))

    assert kinds_of_devices(request, node, are_sets=False) == (0, 0, 0, 1)
    assert kinds_of_devices(request, node, are_sets=True) == (0, 1, 2, 3)
    assert kinds_of_devices(named, node, are_sets=False) == (0, 1, 2, 3)
    cordoned = replace(node, cordoned=frozenset({"card-1"}))
    assert kinds_of_devices(request, cordoned, are_sets=False) == (0, 1, 0, 2)
