import pytest

from hamid.sched.reservations import Reservations, Stage
from tests.sched.builders import make_allocation
from tests.sched.world import Clock


def test_a_reservation_ends_with_its_term():
    clock = Clock()
    kept = Reservations(clock=clock)
    kept.put(make_allocation(uid="a"), Stage.RESERVED, ttl_s=30)
    kept.put(make_allocation(uid="b"), Stage.SENT, ttl_s=600)

    clock.advance(29.9)
    assert kept.pop_expired() == ()

    clock.advance(0.1)
    assert [found.pod_uid for found in kept.pop_expired()] == ["a"]
    assert [found.pod_uid for found in kept] == ["b"]


def test_a_pod_has_one_reservation():
    kept = Reservations(clock=Clock())
    kept.put(make_allocation(uid="a"), Stage.RESERVED, ttl_s=30)

    kept.put(make_allocation(uid="a", node_name="node-b"), Stage.RESERVED, ttl_s=30)

    assert len(kept) == 1
    assert kept.get("a").allocation.node_name == "node-b"


@pytest.mark.parametrize(
    ("stage", "expected"), [(Stage.RESERVED, False), (Stage.SENT, True), (Stage.BOUND, True)]
)
def test_a_pod_whose_bind_was_sent_may_be_bound(stage, expected):
    kept = Reservations(clock=Clock())
    kept.put(make_allocation(uid="a"), stage, ttl_s=1)

    assert kept.get("a").is_in_doubt is expected


def test_nothing_is_left_after_clear():
    kept = Reservations(clock=Clock())
    kept.put(make_allocation(uid="a"), Stage.RESERVED, ttl_s=0)

    kept.clear()

    assert kept.pop_expired() == ()
    assert kept.pop("a") is None
