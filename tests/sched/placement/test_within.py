"""Invariant: a pod is refused for its quota only where no choice of cards would be within it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryPercent
from hamid.model.quota import Bound, Limit, QuotaResource, charge
from hamid.model.request import ContainerKind, PolicyName
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.over_quota import QuotaRefusal
from hamid.sched.placement.place import Placement, Unplaceable, place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import ENOUGH, quota_refusal, within
from tests.sched.builders import make_container, make_device, make_node, make_request

BINPACK = Policies(node=(PolicyName.BINPACK,), device=(PolicyName.BINPACK,))
DEFAULT = Policies(node=(PolicyName.FRAGMENTATION,), device=(PolicyName.FRAGMENTATION,))


def bounds(left, resource=QuotaResource.MEMORY_MIB):
    limit = Limit(key="limits.x", resource=resource, hard=left + 100)
    return [Bound(quota_name="cards", limit=limit, used=100)]


def cards(*sizes):
    return [make_device(f"card-{n}", device_index=n, memory_mib=mib) for n, mib in enumerate(sizes)]


def half(count=1, **more):
    return make_container(device_count=count, memory=MemoryPercent(percent=50), **more)


def placed(request, nodes, left, policies=DEFAULT):
    outcome = place(request, nodes, policies=policies)
    return within(
        request,
        outcome,
        bounds=bounds(left),
        nodes={node.node_name: node for node in nodes},
        policies=policies,
        measure=Fragmentation(Arrivals().typical),
    )


def charged(found):
    return charge(found.allocation("uid-1")).memory_mib


@pytest.mark.parametrize("policies", [DEFAULT, BINPACK])
def test_a_percentage_is_charged_on_the_card_really_chosen(policies):
    node = make_node(devices=cards(16_000, 24_000))

    assert charged(placed(make_request(half()), [node], 8_000, policies).best) == 8_000
    assert isinstance(placed(make_request(half()), [node], 7_999, policies), Unplaceable)


def test_where_there_is_room_for_any_card_the_policies_choose():
    nodes = [make_node(devices=cards(16_000, 24_000))]
    request = make_request(half())

    assert placed(request, nodes, 12_000) == place(request, nodes, policies=DEFAULT)


def test_nodes_with_cards_that_are_too_large_say_so_and_others_stay():
    small, large = make_node("small", cards(16_000)), make_node("large", cards(24_000))

    outcome = placed(make_request(half()), [small, large], 8_000)

    assert outcome.node_names == ("small",)
    (over,) = outcome.refusals["large"].overdrafts
    assert (over.asked, over.bound.left, over.is_least) == (12_000, 8_000, False)


def test_a_node_is_not_lost_for_the_larger_of_its_cards():
    mixed, small = make_node("mixed", cards(16_000, 24_000)), make_node("small", cards(16_000))

    outcome = placed(make_request(half(2)), [mixed, small], 20_000)

    assert [(found.node_name, charged(found)) for found in outcome.ranked] == [("mixed", 20_000)]


def test_a_pod_that_asks_in_mib_is_judged_before_any_card_is_looked_at():
    request = make_request(make_container(device_count=2))

    assert quota_refusal(request, bounds(2_000)) is None
    refusal = quota_refusal(request, bounds(1_999))
    assert [(o.asked, o.is_least) for o in refusal.overdrafts] == [(2_000, False)]
    assert quota_refusal(request, bounds(1, QuotaResource.CARDS)) is not None
    assert quota_refusal(request, []) is None


def test_a_percentage_of_nothing_is_too_much_for_a_quota_that_is_used_up():
    (over,) = quota_refusal(make_request(half()), bounds(0)).overdrafts

    assert over.is_least


def test_a_pod_that_fits_nowhere_stays_as_it_is():
    request = make_request(make_container(memory=MemoryPercent(percent=50), core_percent=100))
    nodes = [make_node(devices=[])]

    assert placed(request, nodes, 1) == place(request, nodes, policies=DEFAULT)


SIZES = st.lists(st.sampled_from([8_000, 16_000, 24_000]), min_size=1, max_size=4)


@given(SIZES, st.lists(st.integers(1, 3), min_size=1, max_size=2), st.integers(1, 40_000))
def test_it_is_refused_only_if_every_choice_would_be_too_much(sizes, counts, left):
    kinds = [ContainerKind.INIT, ContainerKind.APP][-len(counts) :]
    request = make_request(
        *(half(n, name=f"c{i}", kind=k) for i, (n, k) in enumerate(zip(counts, kinds, strict=True)))
    )
    node = make_node(devices=cards(*sizes))

    outcome = placed(request, [node], left)

    cheapest = [
        min(
            (sum(s // 2 for s in found) for found in itertools.combinations(sizes, n)), default=None
        )
        for n in counts
    ]
    fits = None not in cheapest and max(cheapest) <= left
    assert isinstance(outcome, Placement) is fits
    if fits:
        assert charged(outcome.best) <= left
    elif None not in cheapest:
        assert isinstance(outcome.refusals["node-a"], QuotaRefusal)


def test_once_enough_nodes_have_room_the_others_are_left_out():
    nodes = [make_node(f"n{n:02}", cards(24_000, 16_000)) for n in range(ENOUGH + 3)]

    outcome = placed(make_request(half()), nodes, 8_000, BINPACK)

    assert len(outcome.node_names) == ENOUGH
    assert len(outcome.refusals) == 3


def test_cards_that_are_all_too_large_need_no_search():
    nodes = [make_node(f"n{n}", cards(24_000, 16_000)) for n in range(3)]

    outcome = placed(make_request(half()), nodes, 7_999)

    (refusal,) = set(outcome.refusals.values())
    assert [(over.asked, over.is_least) for over in refusal.overdrafts] == [(8_000, True)]


def test_where_the_small_cards_are_full_the_refusal_speaks_of_the_larger_ones():
    large, small = cards(24_000, 16_000)
    full = DeviceUsage(device=small, slots_used=1, memory_used_mib=16_000)
    node = make_node(usages=[DeviceUsage(device=large), full])

    outcome = placed(make_request(half()), [node], 8_000)

    (over,) = outcome.refusals["node-a"].overdrafts
    assert (over.asked, over.excess) == (12_000, 4_000)


def test_of_nodes_that_are_left_out_it_is_not_said_that_what_is_left_is_too_little():
    nodes = [make_node(f"n{n:02}", cards(24_000, 16_000)) for n in range(ENOUGH + 1)]

    outcome = placed(make_request(half()), nodes, 8_000, BINPACK)

    ((over,),) = (refusal.overdrafts for refusal in outcome.refusals.values())
    assert over.asked > over.bound.left
