from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.placement.capacity import freed
from hamid.sched.placement.place import NodePlacement, place_on_node, with_allocation
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.preemption import HeldNode, Holder, Preemptor, eviction
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_device,
    make_node,
    make_request,
    make_share,
)

NOW_S = 1_000.0


def holder(uid, *mib_by_card, node="node-a", started_s=0, **overrides):
    """A pod with so much of card-0, so much of card-1, …; 0 is nothing of that card."""
    shares = [make_share(f"card-{n}", memory_mib=mib) for n, mib in enumerate(mib_by_card) if mib]
    allocation = make_allocation(*shares, uid=uid, node_name=node)
    return Holder(pod_uid=uid, allocation=allocation, started_at_s=NOW_S - started_s, **overrides)


def held(*holders, name="node-a", cards=1, card_mib=10_000, given=()):
    node = make_node(
        name, [make_device(f"card-{n}", device_index=n, memory_mib=card_mib) for n in range(cards)]
    )
    for each in holders:
        node = with_allocation(node, each.allocation)
    return HeldNode(node=node, holders=holders, given=frozenset(given))


def preemptor(mib=10_000, *, cards=1, priority=100, **overrides):
    container = make_container(device_count=cards, memory=MemoryMib(mib=mib))
    values = {"request": make_request(container, uid="new"), "policies": Policies()}
    return Preemptor(**{**values, "priority": priority, "now_s": NOW_S, **overrides})


def victims(preemptor, *nodes):
    found = eviction(preemptor, nodes)
    return None if found is None else [each.pod_uid for each in found.victims]


def test_the_pod_that_is_in_the_way_has_to_go():
    node = held(holder("small", 2_000), holder("large", 8_000))

    found = eviction(preemptor(7_000), [node])

    assert [each.pod_uid for each in found.victims] == ["large"]
    (container,) = found.placement.containers
    assert container.shares == (make_share("card-0", memory_mib=7_000),)


def test_under_mutex_for_nodes_all_on_the_node_have_to_go():
    node = held(holder("a", 1_000), holder("b", 0, 1_000), cards=2)
    alone = Policies(node=(PolicyName.MUTEX,))

    assert victims(preemptor(1_000, policies=alone), node) == ["a", "b"]


def test_nobody_goes_where_it_does_not_help():
    too_large = preemptor(11_000)

    assert eviction(too_large, [held(holder("a", 10_000))]) is None


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"priority": 100}, id="of equal priority"),
        pytest.param({"priority": 101}, id="of higher priority"),
        pytest.param({"is_protected": True}, id="of the system"),
        pytest.param({"budgets": frozenset({"budget"})}, id="that a budget protects"),
    ],
)
def test_nobody_goes(overrides):
    assert eviction(preemptor(), [held(holder("a", 10_000, **overrides))]) is None


def test_a_budget_lets_so_many_go():
    pods = [holder(uid, 5_000, budgets=frozenset({"budget"})) for uid in ("a", "b")]

    assert victims(preemptor(allowed={"budget": 1}), held(*pods)) is None
    assert victims(preemptor(allowed={"budget": 2}), held(*pods)) == ["a", "b"]


def test_where_budgets_may_be_broken_as_few_are_as_can_be():
    protected = held(holder("a", 10_000, budgets=frozenset({"budget"}), priority=-5), name="node-a")
    free = held(holder("b", 10_000, node="node-b", priority=50), name="node-b")

    assert victims(preemptor(may_violate=True), protected, free) == ["b"]
    assert victims(preemptor(may_violate=True), protected) == ["a"]


def test_two_of_low_priority_go_before_one_of_higher():
    node = held(
        holder("low-1", 5_000),
        holder("low-2", 5_000),
        holder("high", 0, 10_000, priority=1),
        cards=2,
    )

    assert victims(preemptor(), node) == ["low-1", "low-2"]


def test_of_equal_priority_as_few_go_as_can():
    node = held(
        holder("one", 5_000),
        holder("two", 5_000),
        holder("alone", 0, 10_000, started_s=900),
        cards=2,
    )

    assert victims(preemptor(), node) == ["alone"]


def test_of_as_many_those_go_that_have_done_the_least():
    old = held(holder("old", 10_000, started_s=500), name="node-a")
    young = held(holder("young", 10_000, node="node-b", started_s=20), name="node-b")
    wide = held(holder("wide", 10_000, 10_000, node="node-c", started_s=15), name="node-c", cards=2)

    assert victims(preemptor(), old, young, wide) == ["young"]


def test_a_pod_that_leaves_anyway_is_waited_for():
    leaving = held(holder("leaving", 10_000, is_leaving=True, priority=500))
    other = held(holder("other", 10_000, node="node-b", priority=-1), name="node-b")

    found = eviction(preemptor(), [other, leaving])

    assert (found.placement.node_name, found.victims) == ("node-a", ())


def test_who_is_given_goes_and_others_only_if_needed():
    enough = held(holder("cpu", 10_000, priority=5), holder("b", 0, 10_000), cards=2, given=["cpu"])
    short = held(holder("cpu", 2_000), holder("rest", 8_000), name="node-a", given=["cpu"])

    assert victims(preemptor(), enough) == []
    assert victims(preemptor(), short) == ["rest"]


def test_several_cards_need_a_set_of_victims():
    node = held(
        holder("a", 10_000),
        holder("b", 0, 10_000, priority=3),
        holder("c", 0, 0, 10_000, priority=2),
        cards=3,
    )

    assert victims(preemptor(cards=2), node) == ["a", "c"]


def test_cards_for_itself_alone_are_made_free():
    request = make_request(
        make_container(memory=MemoryMib(mib=1_000), core_percent=WHOLE_DEVICE_PERCENT), uid="new"
    )
    node = held(holder("a", 1_000), holder("b", 1_000))

    assert victims(preemptor(request=request), node) == ["a", "b"]


def test_so_many_that_not_all_sets_can_be_tried_still_make_room():
    pods = [holder(f"pod-{n:02}", 500, 500, priority=n % 3) for n in range(20)]
    node = held(*pods, cards=2)

    found = eviction(preemptor(9_000, cards=2), [node])

    assert len(found.victims) == 18
    assert {each.priority for each in found.victims if each.priority == 2}
    left = node.node
    for each in found.victims:
        left = freed(left, each.allocation)
    assert fits(preemptor(9_000, cards=2), left)


def fits(preemptor, node):
    outcome = place_on_node(preemptor.request, node, policies=preemptor.policies)
    return isinstance(outcome, NodePlacement)


def all_sets(preemptor, node):
    """Every set that may go and makes room, with what it costs, by the words of the module."""
    base, movable = node.node, []
    for each in node.holders:
        if each.is_leaving:
            base = freed(base, each.allocation)
        elif each.priority < preemptor.priority and not each.is_protected:
            movable.append(each)
    for size in range(len(movable) + 1):
        for chosen in combinations(movable, size):
            left = base
            for each in chosen:
                left = freed(left, each.allocation)
            counted = [name for each in chosen for name in each.budgets]
            broken = sum(
                max(0, counted.count(name) - preemptor.allowed.get(name, 0))
                for name in set(counted)
            )
            if (broken and not preemptor.may_violate) or not fits(preemptor, left):
                continue
            yield (
                (
                    broken,
                    max((each.priority for each in chosen), default=-(2**31)),
                    sum(each.priority + 2**31 for each in chosen),
                    sum(len(each.devices) * int(NOW_S - each.started_at_s) for each in chosen),
                ),
                {each.pod_uid for each in chosen},
            )


pods = st.tuples(
    st.lists(st.integers(0, 5), min_size=2, max_size=2).filter(any),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sets(st.sampled_from(["x", "y"]), max_size=1),
    st.sampled_from(["", "", "", "is_leaving", "is_protected"]),
)


@settings(max_examples=150)
@given(
    nodes=st.lists(st.lists(pods, max_size=5), min_size=1, max_size=3),
    ask_mib=st.integers(3, 10),
    cards=st.integers(1, 2),
    allowed=st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2)),
    may_violate=st.booleans(),
    policy=st.sampled_from([PolicyName.FRAGMENTATION, PolicyName.BINPACK, PolicyName.MUTEX]),
)
def test_no_other_set_costs_less_and_none_goes_in_vain(nodes, ask_mib, cards, policy, **budgets):
    asking = preemptor(
        ask_mib * 1_000, cards=cards, priority=2, policies=Policies(device=(policy,)), **budgets
    )
    places = [
        held(
            *(
                holder(
                    f"{number}-{n}",
                    *(mib * 1_000 for mib in shares),
                    node=f"node-{number}",
                    started_s=age * 10,
                    priority=priority,
                    budgets=frozenset(budgets),
                    **({flag: True} if flag else {}),
                )
                for n, (shares, priority, age, budgets, flag) in enumerate(there)
            ),
            name=f"node-{number}",
            cards=2,
        )
        for number, there in enumerate(nodes)
    ]

    found = eviction(asking, places)

    best = min((cost for place in places for cost, _ in all_sets(asking, place)), default=None)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert tuple(found.cost) == best
    chosen = {each.pod_uid for each in found.victims}
    (place,) = (p for p in places if p.node.node_name == found.placement.node_name)
    assert (best, chosen) in list(all_sets(asking, place))
    for one in chosen:
        assert chosen - {one} not in [those for _, those in all_sets(asking, place)]
