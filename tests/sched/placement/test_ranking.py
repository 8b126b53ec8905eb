import pytest

from hamid.sched.placement.fragmentation import Choice
from hamid.sched.placement.place import chosen_placement
from hamid.sched.placement.ranking import Ranking, Selected
from tests.sched.builders import make_device, make_node, make_request

NODES = [make_node(f"node-{n}", devices=[make_device(f"card-{n}")]) for n in range(3)]
CHOICES = [Choice(10 - n, (0,)) for n in range(3)]


@pytest.fixture
def ranking():
    return Ranking(make_request(), list(zip(NODES, CHOICES, strict=True)))


def test_a_node_says_what_the_pod_would_get_there(ranking):
    right = [chosen_placement(make_request(), n, c) for n, c in zip(NODES, CHOICES, strict=True)]

    assert list(ranking) == right
    assert ranking[-1] == right[-1]
    assert ranking[:2] == tuple(right[:2])
    assert ranking == tuple(right)
    assert hash(ranking) == hash(tuple(right))
    assert ranking != right[:2]


def test_what_was_worked_out_is_not_worked_out_again(ranking):
    assert ranking[1] is ranking[1]


def test_there_is_nothing_behind_the_last_node(ranking):
    with pytest.raises(IndexError):
        ranking[3]


def test_it_is_shown_by_its_length(ranking):
    assert repr(ranking) == "Ranking(3 nodes)"


def test_some_of_a_ranking_are_followed_by_others(ranking):
    other = chosen_placement(make_request(), make_node("other"), CHOICES[0])

    selected = Selected(ranking, [0, 2], [other])

    assert [found.node_name for found in selected] == ["node-0", "node-2", "other"]
    assert (len(selected), selected[-1], selected[1:]) == (3, other, (ranking[2], other))
    assert repr(selected) == "Selected(3 nodes)"
    with pytest.raises(IndexError):
        selected[3]
