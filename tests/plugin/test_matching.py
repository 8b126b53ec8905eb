import pytest

from hamid.plugin.matching import (
    KnownPod,
    Match,
    best_match,
    matches,
    next_match,
    served_matches,
    under_admission,
)
from tests.builders import make_allocation, make_container_allocation, make_share, uuid
from tests.plugin.values import asking, pod_on_node


def found_in(found):
    return [(match.pod.name, match.container_name) for match in found]


def test_a_pod_that_asks_and_is_not_served_comes_into_question():
    assert found_in(matches([pod_on_node()], served=(), count=1)) == [("pod-1", "train")]


@pytest.mark.parametrize(
    ("pod", "served", "count"),
    [
        pytest.param(pod_on_node(is_terminal=True), (), 1, id="finished"),
        pytest.param(pod_on_node(), [("uid-of-pod-1", "train")], 1, id="served already"),
        pytest.param(pod_on_node(), (), 2, id="asks for another count"),
        pytest.param(
            pod_on_node("pod-1", asking("a", 2), asking("b", 1)), (), 1, id="not its turn yet"
        ),
    ],
)
def test_a_pod_does_not_come_into_question(pod, served, count):
    assert matches([pod], served=served, count=count) == ()


def test_of_one_pod_only_the_first_container_not_served_comes_into_question():
    pod = pod_on_node("pod-1", asking("init"), asking("a"), asking("b"))

    found = matches([pod], served=[(pod.pod_uid, "init")], count=1)

    assert found_in(found) == [("pod-1", "a")]
    assert next_match(pod, served=[(pod.pod_uid, n) for n in ("init", "a", "b")]) is None


def test_pods_come_oldest_first_and_then_by_name():
    pods = [
        pod_on_node("c", created_at="2026-01-01T00:00:09Z"),
        pod_on_node("b", created_at="2026-01-01T00:00:10Z"),
        pod_on_node("a", created_at="2026-01-01T00:00:10Z"),
    ]

    assert [name for name, _ in found_in(matches(pods, served=(), count=1))] == ["c", "a", "b"]


def test_a_container_without_a_decision_still_comes_into_question():
    (match,) = matches([pod_on_node(allocation=None)], served=(), count=1)

    assert match.allocation is None
    assert match.devices == ()


def test_a_match_has_what_was_decided_for_its_own_container():
    shares = {"a": make_share(device_uuid=uuid(1)), "b": make_share(device_uuid=uuid(2))}
    decided = [make_container_allocation(s, container_name=name) for name, s in shares.items()]
    pod = pod_on_node("pod-1", asking("a"), asking("b"), allocation=make_allocation(*decided))

    match = next_match(pod, served=[(pod.pod_uid, "a")])

    assert match is not None
    assert match.devices == (uuid(2),)


def test_served_containers_are_found_again_all_of_them():
    pods = [
        pod_on_node("p", asking("a"), asking("b"), asking("c", 2)),
        pod_on_node("over", is_terminal=True),
    ]

    assert found_in(served_matches(pods, count=1)) == [("p", "a"), ("p", "b")]


def known(*containers_with_slots):
    return KnownPod(
        namespace="default", name="any", containers_with_slots=frozenset(containers_with_slots)
    )


@pytest.mark.parametrize(
    ("books", "remains"),
    [
        pytest.param({("default", "pod-1"): known()}, True, id="known, with nothing yet"),
        pytest.param({("default", "pod-1"): known("other")}, True, id="another container has some"),
        pytest.param({("default", "pod-1"): known("train")}, False, id="admitted before"),
        pytest.param({("default", "pod-1"): None}, False, id="the kubelet has not reached it"),
        pytest.param({}, True, id="the kubelet could not be asked"),
    ],
)
def test_the_kubelets_books_tell_which_pod_is_under_admission(books, remains):
    found = matches([pod_on_node()], served=(), count=1)

    assert bool(under_admission(found, books)) is remains


def test_a_pod_whose_cards_the_slots_name_is_the_likeliest():
    decided = make_allocation(make_container_allocation(make_share(device_uuid=uuid(2))))
    old, new = pod_on_node("old"), pod_on_node("new", allocation=decided)
    found = [Match(pod=pod, container=pod.asking[0]) for pod in (old, new)]

    best = best_match(found, slot_ids=[f"{uuid(2)}-7"])

    assert best is not None
    assert best.pod.name == "new"


def test_where_the_slots_tell_nothing_the_oldest_is_the_likeliest():
    found = matches([pod_on_node("a"), pod_on_node("b")], served=(), count=1)

    best = best_match(found, slot_ids=[f"{uuid(9)}-0"])

    assert best is not None
    assert best.pod.name == "a"
    assert best_match((), slot_ids=[]) is None


def test_a_match_is_named_by_the_pods_uid_and_the_container():
    (match,) = matches([pod_on_node()], served=(), count=1)

    assert match.key == ("uid-of-pod-1", "train")
    assert match.pod.pod_key == "default/pod-1"
    assert match.pod.sharing("train") == match.pod.asking[0].sharing
