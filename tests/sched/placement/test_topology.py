from dataclasses import replace
from itertools import combinations

import pytest

from hamid.model.request import PolicyName
from hamid.sched.placement import topology
from hamid.sched.placement.place import NodePlacement, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.topology import (
    best_linked,
    link_cost,
    link_cost_between_nodes,
    numa_count,
)
from tests.sched.builders import (
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
)


def links(count, **pairs):
    """Links of 1 between all, but for those named `a_b`."""
    rows = [[1] * count for _ in range(count)]
    for name, score in pairs.items():
        one, other = (int(part) for part in name.removeprefix("l").split("_"))
        rows[one][other] = rows[other][one] = score
    return tuple(map(tuple, rows))


def best(matrix, count):
    sets = combinations(range(len(matrix)), count)
    return min(sets, key=lambda positions: (link_cost(matrix, positions), positions))


@pytest.mark.parametrize(
    ("matrix", "count", "chosen"),
    [
        pytest.param(links(4, l1_3=9), 2, (1, 3), id="the best linked pair"),
        pytest.param(
            links(4, l0_1=9, l0_2=9, l1_2=1, l0_3=2, l1_3=2),
            3,
            (0, 1, 3),
            id="no set is better than its weakest link",
        ),
        pytest.param(
            links(4, l0_1=5, l2_3=5, l0_2=3, l1_3=3), 2, (0, 1), id="equal pairs by position"
        ),
        pytest.param(
            links(5, l0_1=5, l2_3=5, l3_4=7, l2_4=1), 2, (3, 4), id="the sum before what is left"
        ),
        pytest.param(
            links(6, l0_1=5, l2_3=5, l4_5=5, l0_2=4, l1_3=4),
            2,
            (4, 5),
            id="then what leaves the best linked others",
        ),
        pytest.param(links(3, l0_1=9), 1, (2,), id="one alone takes the worst linked"),
    ],
)
def test_the_best_set(matrix, count, chosen):
    assert best(matrix, count) == chosen


def test_sets_are_ordered_once_for_all_nodes_that_are_linked_alike(monkeypatch):
    """However many nodes there are, and whatever is taken of their cards."""
    ordered = []
    quality = topology._quality

    def counting(matrix, positions):
        ordered.append(positions)
        return quality(matrix, positions)

    monkeypatch.setattr(topology, "_quality", counting)
    matrix = links(7, l1_3=9)
    nodes = [
        replace(make_node(f"node-{n}", make_devices(7, memory_mib=1_000 + n)), links=matrix)
        for n in range(20)
    ]
    request = make_request(make_container(device_count=3))
    by_links = Policies(node=(PolicyName.BINPACK,), device=(PolicyName.TOPOLOGY_AWARE,))

    for node in nodes:
        assert isinstance(place_on_node(request, node, policies=by_links), NodePlacement)

    assert sorted(ordered) == list(combinations(range(7), 3))


def test_without_links_all_sets_are_alike():
    assert link_cost((), (0, 1)) == 0


def test_half_told_pairs_count_with_the_better_figure():
    assert best(((0, 0, 7), (1, 0, 1), (0, 1, 0)), 2) == (0, 2)


def test_more_sets_than_a_class_is_ordered_for_are_still_compared():
    matrix = links(20, **{f"l{a}_{b}": 2 for a, b in combinations(range(10), 2)})

    assert link_cost(matrix, tuple(range(10))) < link_cost(matrix, tuple(range(5, 15)))


def test_devices_without_a_numa_node_count_alone():
    devices = [
        *make_devices(2, numa_node=0),
        make_device("card-2", device_index=2),
        make_device("card-3", device_index=3),
    ]

    assert numa_count(make_node(devices=devices), range(4)) == 3


@pytest.mark.parametrize(
    ("states", "positions", "chosen"),
    [
        pytest.param("aaaa", (0, 1), (2, 3), id="the best linked of cards in the same state"),
        pytest.param("aaaa", (0,), (1,), id="one card alone is the worst linked"),
        pytest.param("aaba", (0, 1), (0, 3), id="only cards in the same state stand in"),
        pytest.param("aabb", (1, 2), (0, 2), id="each for one of its own state"),
        pytest.param("abcd", (0, 1), (0, 1), id="without any alike those that were chosen"),
    ],
)
def test_equal_cards_are_taken_by_their_links(states, positions, chosen):
    matrix = links(4, l2_3=9, l0_2=5, l0_3=4)

    assert best_linked(matrix, states, positions) == chosen


def test_without_links_the_chosen_cards_stay():
    assert best_linked((), "aaaa", (0, 1)) == (0, 1)


def test_too_many_sets_to_compare_leave_the_choice_as_it_is():
    positions = tuple(range(8))

    assert best_linked(links(16, l8_9=9), "a" * 16, positions) == positions


def test_sets_of_two_nodes_are_compared_by_the_weakest_link_then_by_the_sum():
    one = links(3, l0_1=5, l0_2=5, l1_2=5)
    other = links(4, l0_1=9, l0_2=9, l1_2=5)

    costs = [link_cost_between_nodes(matrix, (0, 1, 2)) for matrix in (links(3), one, other)]

    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 3


def test_where_links_are_unknown_there_are_none():
    assert link_cost_between_nodes((), (0, 1)) > link_cost_between_nodes(links(2), (0, 1))
    assert link_cost_between_nodes((), (0,)) < link_cost_between_nodes(links(2), (0,))
