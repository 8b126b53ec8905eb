import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import Placement, place, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import Kind, Refusal
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.typical import Arrivals
from tests.sched.builders import by_name, make_container, make_device, make_node, make_request

POLICIES = Policies()


def node(number, used_mib):
    return make_node(
        f"node-{number}", usages=[DeviceUsage(device=make_device(), memory_used_mib=used_mib)]
    )


def asking(mib, uid="uid-1", policy=()):
    container = make_container(memory=MemoryMib(mib=mib))
    return make_request(container, uid=uid, node_policies=policy)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(0, 40_000),
            st.sampled_from([1_000, 20_000]),
            st.sampled_from([(), *((name,) for name in PolicyName)]),
        ),
        max_size=30,
    )
)
def test_the_answer_is_always_that_of_place(steps):
    placer = Placer(policies=POLICIES, rows_kept=2)
    nodes = {number: node(number, 0) for number in range(5)}
    for changed, used_mib, asked_mib, policy in steps:
        nodes[changed] = node(changed, used_mib)
        request = asking(asked_mib, policy=policy)

        found = placer.place(request, by_name(nodes.values()))

        assert found == place(request, nodes.values(), policies=POLICIES)


def test_pods_of_one_shape_share_what_was_found_but_not_their_identity():
    placer = Placer(policies=POLICIES)
    nodes = [node(0, 0)]

    first = placer.place(asking(1_000, "a"), by_name(nodes)).best
    second = placer.place(asking(1_000, "b"), by_name(nodes)).best

    assert first == second
    assert second.allocation("b").pod_uid == "b"


@pytest.mark.parametrize("policy", [(), (PolicyName.SPREAD,)], ids=["by choice", "by search"])
def test_nodes_that_are_gone_are_forgotten(policy):
    placer = Placer(policies=POLICIES)
    for number in range(200):
        placer.place(asking(1_000, policy=policy), by_name([node(number, 0)]))

    assert all(len(row) < 20 for row in placer._rows.values())
    assert len(placer._board._names) < 20


def test_pods_that_may_go_to_few_nodes_only_do_not_make_it_forget_the_others():
    placer = Placer(policies=POLICIES)
    nodes = [node(number, number) for number in range(100)]
    placer.place(asking(1_000), by_name(nodes))

    placer.place(asking(2_000), by_name(nodes[:3]))

    assert len(placer._board._names) == 100


def test_another_mix_of_arrivals_gives_the_answer_of_a_placer_that_always_knew_it():
    placer, arrivals = Placer(policies=POLICIES), Arrivals()
    nodes = [node(number, 3_000 * number) for number in range(5)]
    placer.place(asking(1_000), by_name(nodes))
    for count in range(100):
        large = asking(20_000 + 100 * (count % 3), f"uid-{count}")
        placer.arrivals.observe(large)
        arrivals.observe(large)
        assert arrivals.typical.generation >= 0  # looked at as often as the placer does
        placer.place(large, by_name(nodes))

    found = placer.place(asking(1_000), by_name(nodes))

    measure = Fragmentation(arrivals.typical)
    assert arrivals.typical.generation > 0
    assert found == place(asking(1_000), nodes, policies=POLICIES, measure=measure)


def test_a_card_changed_for_one_in_the_same_state_is_the_one_that_is_given():
    placer = Placer(policies=POLICIES)
    placer.place(asking(1_000), by_name([node(0, 0)]))

    changed = make_node("node-0", devices=[make_device("card-new")])
    found = placer.place(asking(1_000), by_name([changed]))

    (share,) = found.best.containers[0].shares
    assert share.device_uuid == "card-new"


def test_a_cordoned_and_an_unhealthy_card_are_refused_each_with_its_own_reason():
    placer = Placer(policies=POLICIES)
    cordoned = make_node("node-a", cordoned=["card-a"])
    ill = make_node("node-b", devices=[make_device(is_healthy=False)])

    found = placer.place(asking(1_000), by_name([cordoned, ill]))

    assert [list(found.refusals[name].counts) for name in ("node-a", "node-b")] == [
        [Kind.CORDON],
        [Kind.HEALTH],
    ]


def test_a_refusal_counts_what_its_own_shortfalls_count():
    placer = Placer(policies=POLICIES)
    nodes = [node(number, 39_500) for number in range(3)]
    nodes.append(make_node("bare", usages=[]))

    found = placer.place(asking(1_000), by_name(nodes))

    for refusal in found.refusals.values():
        plain = Refusal(refusal.shortfalls)
        assert refusal == plain
        assert {k: c.card_count for k, c in refusal.counts.items()} == {
            k: c.card_count for k, c in plain.counts.items()
        }
        assert refusal.is_hopeless is plain.is_hopeless
        assert (refusal.card_count, refusal.needed_count, refusal.fitting_count) == (
            plain.card_count,
            plain.needed_count,
            plain.fitting_count,
        )


def test_warming_does_all_the_work_in_slices(monkeypatch):
    placer = Placer(policies=POLICIES)
    request = asking(1_000, policy=(PolicyName.SPREAD,))
    nodes = [node(number, number) for number in range(100)]

    slices = sum(1 for _ in placer.warming(request, nodes))

    monkeypatch.setattr(placer, "_searched", None)  # place has nothing left to search
    assert slices > 10
    assert len(placer.place(request, by_name(nodes)).ranked) == 100


def test_slices_are_as_short_for_pods_of_many_containers():
    placer = Placer(policies=POLICIES)
    containers = tuple(make_container(f"c{n}") for n in range(20))
    nodes = [node(number, number) for number in range(10)]

    assert sum(1 for _ in placer.warming(make_request(*containers), nodes)) == 10


def test_warming_is_not_needed_where_choices_are_quick():
    assert not list(Placer(policies=POLICIES).warming(asking(1_000), [node(0, 0)]))


@pytest.mark.parametrize("policy", [(), (PolicyName.SPREAD,)], ids=["by choice", "by search"])
def test_what_is_remembered_of_asks_of_any_size_has_an_end(monkeypatch, policy):
    monkeypatch.setattr("hamid.sched.placement.fragmentation.ANSWERS_KEPT", 200)
    placer, seen = Placer(policies=POLICIES), set()
    nodes = [node(number, 3_000 * number) for number in range(5)]

    for mib in range(1_000, 12_000, 100):
        request = asking(mib, policy=policy)
        found = placer.place(request, by_name(nodes))
        assert found == place(request, nodes, policies=POLICIES)
        seen.add(id(placer.measure))
        assert len(placer.measure._states._numbered) <= 200

    assert policy or len(seen) > 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(0, 40_000),
            st.sampled_from([1_000, 20_000]),
            st.sets(st.integers(0, 4)),
            st.one_of(st.none(), st.integers(1, 4)),
        ),
        max_size=30,
    ),
    st.sampled_from([0, 1, 64]),
)
def test_of_some_nodes_the_best_that_are_wanted_are_those_of_place(steps, few):
    placer = Placer(policies=POLICIES)
    nodes = {number: node(number, 0) for number in range(5)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hamid.sched.placement.board._FEW", few)
        assert_the_best_are_those_of_place(placer, nodes, steps)


def assert_the_best_are_those_of_place(placer, nodes, steps):
    for changed, used_mib, asked_mib, among, wanted in steps:
        nodes[changed] = node(changed, used_mib)
        shown = [nodes[number] for number in among]

        found = placer.place(asking(asked_mib), by_name(shown), wanted=wanted)

        right = place(asking(asked_mib), shown, policies=POLICIES)
        assert found.refusals == right.refusals
        if isinstance(right, Placement):
            assert found.fitting_count == right.fitting_count
            assert found.node_names == right.node_names[:wanted]
            assert tuple(found.ranked) == tuple(right.ranked[:wanted])


class Ledger:
    """What was worked out of nodes, by name, through whatever door."""

    def __init__(self, monkeypatch):
        self.looked_at, self.chosen, self.searched = [], [], []
        ledger = self

        class Counting(Fragmentation):
            def view(self, node):
                ledger.looked_at.append(node.node_name)
                return super().view(node)

            def bound(self, view, number):
                ledger.chosen.append(number)
                return super().bound(view, number)

        def counting(request, node, **options):
            ledger.searched.append(node.node_name)
            return place_on_node(request, node, **options)

        monkeypatch.setattr("hamid.sched.placement.board.Fragmentation", Counting)
        monkeypatch.setattr("hamid.sched.placement.rows.place_on_node", counting)

    def taken(self):
        """What came since the last time: looked at, how many choices, searched."""
        found = self.looked_at[:], len(self.chosen), self.searched[:]
        for each in (self.looked_at, self.chosen, self.searched):
            each.clear()
        return found


@pytest.mark.parametrize("mib", [1_000, 39_990], ids=["it fits", "most refuse"])
@pytest.mark.parametrize("policy", [(), (PolicyName.SPREAD,)], ids=["by choice", "by search"])
def test_only_the_nodes_that_changed_are_worked_out_anew(monkeypatch, policy, mib):
    ledger = Ledger(monkeypatch)
    placer = Placer(policies=POLICIES)
    nodes = {number: node(number, 20 * number) for number in range(100)}
    placer.place(asking(mib, "first", policy), by_name(nodes.values()))
    looked_at, choices, searched = ledger.taken()
    assert len(looked_at) == 100
    assert (choices, len(searched)) == ((0, 100) if policy else (100, 0))

    placer.place(asking(mib, "second", policy), by_name(nodes.values()))
    assert ledger.taken() == ([], 0, [])

    nodes[42] = node(42, 35_000)
    found = placer.place(asking(mib, "third", policy), by_name([*reversed(nodes.values())]))

    assert ledger.taken() == (["node-42"], 0 if policy else 1, ["node-42"] if policy else [])
    assert found == place(asking(mib, "third", policy), nodes.values(), policies=POLICIES)


def test_another_shape_is_chosen_for_anew_but_no_node_is_looked_at_again(monkeypatch):
    ledger = Ledger(monkeypatch)
    placer = Placer(policies=POLICIES)
    nodes = [node(number, 20 * number) for number in range(100)]
    placer.place(asking(1_000), by_name(nodes))
    ledger.taken()

    placer.place(asking(2_000), by_name(nodes))

    assert ledger.taken() == ([], 100, [])
