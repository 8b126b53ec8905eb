import pytest

from hamid.sched.nominations import Nomination, Nominations
from tests.sched.builders import make_allocation, make_node, make_share
from tests.sched.world import Clock


class Kept:
    def __init__(self):
        self.clock = Clock()
        self.freed = []
        self.nominations = Nominations(clock=self.clock, freed=self.freed.append)

    def nominate(
        self,
        uid="high",
        *,
        mib=10_000,
        node="node-a",
        card="card-a",
        priority=10,
        ttl_s=60,
        victims=(),
    ):
        return self.nominations.put(
            Nomination(
                allocation=make_allocation(
                    make_share(card, memory_mib=mib), uid=uid, node_name=node
                ),
                priority=priority,
                victims=frozenset(victims),
                expires_at=self.clock.now_s + ttl_s,
            )
        )

    def free_mib(self, *, uid="other", priority=0):
        nodes = {"node-a": make_node(), "node-b": make_node("node-b")}
        seen = self.nominations.laid_over(nodes, pod_uid=uid, priority=priority)
        return seen["node-a"].usages[0].memory_free_mib


@pytest.fixture
def kept():
    return Kept()


def test_pods_of_lower_and_equal_priority_see_no_room_where_it_is_being_made(kept):
    kept.nominate()

    assert kept.free_mib(priority=9) == 30_000
    assert kept.free_mib(priority=10) == 30_000


def test_the_pod_itself_and_those_above_it_see_the_room(kept):
    kept.nominate()

    assert kept.free_mib(uid="high", priority=10) == 40_000
    assert kept.free_mib(priority=11) == 40_000


def test_nothing_in_the_way_leaves_the_nodes_as_they_are(kept):
    kept.nominate(node="node-c")
    nodes = {"node-a": make_node()}

    assert kept.nominations.laid_over(nodes, pod_uid="other", priority=0) is nodes


def test_the_same_nodes_are_seen_as_the_same_value(kept):
    kept.nominate("one", mib=1_000)
    kept.nominate("two", mib=2_000)
    nodes = {"node-a": make_node()}

    first, second = (
        kept.nominations.laid_over(nodes, pod_uid="other", priority=0)["node-a"] for _ in range(2)
    )

    assert first is second
    assert first.usages[0].memory_used_mib == 3_000
    assert kept.free_mib(uid="one", priority=0) == 38_000


def test_one_that_is_over_is_in_nobodys_way(kept):
    kept.nominate(ttl_s=60)

    kept.clock.advance(61)

    assert kept.free_mib() == 40_000
    kept.nominations.keep_only(lambda _: True)
    assert list(kept.nominations) == []
    assert kept.freed == ["node-a"]


def test_those_whose_pods_wait_no_more_end(kept):
    kept.nominate("bound")
    kept.nominate("waiting", victims=["low"])

    kept.nominations.keep_only(lambda uid: uid == "waiting")

    assert [found.pod_uid for found in kept.nominations] == ["waiting"]
    assert kept.nominations.victims() == {"low"}


def test_a_pod_has_one_at_most(kept):
    kept.nominate(mib=10_000)
    kept.nominate(mib=5_000)

    assert kept.free_mib() == 35_000


@pytest.mark.parametrize(
    ("other", "is_over"),
    [
        pytest.param({"priority": 11}, True, id="higher priority takes the same cards"),
        pytest.param({"priority": 10}, False, id="equal priority does"),
        pytest.param(
            {"priority": 11, "node": "node-b"}, False, id="it takes those of another node"
        ),
        pytest.param({"priority": 11, "card": "card-b"}, False, id="it takes other cards"),
    ],
)
def test_one_ends_when_another_of(kept, other, is_over):
    kept.nominate("low", priority=10)

    assert kept.nominate("high", **other) == (("low",) if is_over else ())

    assert (kept.nominations.get("low") is None) is is_over
    assert kept.nominations.get("high") is not None


def test_all_are_forgotten_when_another_replica_leads(kept):
    kept.nominate()

    kept.nominations.clear()

    assert kept.nominations.get("high") is None
