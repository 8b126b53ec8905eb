from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.hooks.abi.pages import CoreMode
from hamid.hooks.shares import WHOLE, Tenant, rates

FLOOR = 50.0


def lending(promise: float, **more) -> Tenant:
    return Tenant(mode=CoreMode.LEND, promise=promise, **more)


def hard(promise: float, **more) -> Tenant:
    return Tenant(mode=CoreMode.HARD, promise=promise, **more)


def with_priority(priority: int, promise: float = 0, **more) -> Tenant:
    return Tenant(mode=CoreMode.PRIORITY, promise=promise, priority=priority, **more)


def idle(tenant: Tenant) -> Tenant:
    return replace(tenant, is_active=False)


def given_to(*tenants: Tenant, floor: float = FLOOR) -> tuple[float, ...]:
    return tuple(round(rate, 3) for rate in rates(tenants, floor=floor))


def test_a_hard_cap_is_the_promise_whatever_is_idle():
    assert given_to(hard(300), idle(hard(700))) == (300, 700)


def test_busy_tenants_get_their_promises():
    assert given_to(lending(300), lending(700)) == (300, 700)


def test_what_is_idle_goes_to_who_is_busy_and_the_owner_keeps_its_promise():
    assert given_to(lending(300), idle(lending(700))) == (1000, 700)


def test_what_is_idle_is_shared_by_weight():
    assert given_to(lending(200, weight=3), lending(200), idle(lending(600))) == (650, 350, 600)


def test_what_nobody_was_promised_is_lent_too():
    assert given_to(lending(200), lending(200)) == (500, 500)


def test_what_a_hard_capped_owner_leaves_idle_is_lent():
    assert given_to(lending(300), idle(hard(700))) == (1000, 700)


def test_an_owner_that_uses_part_of_its_promise_lends_the_rest():
    assert given_to(lending(300), lending(700, demand=100)) == (900, 700)


def test_one_that_wants_little_more_leaves_the_rest_to_others():
    assert given_to(lending(200, demand=300), lending(200), idle(lending(600))) == (300, 700, 600)


def test_lending_without_a_promise_shares_what_is_promised_to_nobody():
    assert given_to(lending(600), lending(0), lending(0, weight=3)) == (600, 100, 300)


def test_high_priority_comes_first_and_low_keeps_its_floor():
    assert given_to(with_priority(0), with_priority(1)) == (950, 50)


def test_low_priority_gets_all_while_high_is_idle():
    assert given_to(idle(with_priority(0)), with_priority(1))[1] == 1000


def test_an_idle_high_one_may_start_at_once():
    assert given_to(idle(with_priority(0)), with_priority(1))[0] >= 950


def test_low_priority_gets_what_high_leaves():
    assert given_to(with_priority(0, demand=400), with_priority(1))[1] == 600


def test_a_high_one_that_wants_little_is_not_held_back_when_it_wants_more():
    assert given_to(with_priority(0, demand=400), with_priority(1))[0] == 950


def test_low_priority_is_stopped_only_where_that_was_decided():
    assert given_to(with_priority(0), with_priority(1), floor=0) == (1000, 0)


def test_equals_of_one_priority_share_by_promise_then_by_weight():
    assert given_to(with_priority(0, 700), with_priority(0, 300)) == (700, 300)
    assert given_to(with_priority(0, weight=3), with_priority(0)) == (725, 275)


def test_firm_promises_come_before_priorities():
    assert given_to(hard(300), with_priority(0), with_priority(1)) == (300, 650, 50)


def test_an_idle_low_one_starts_at_its_floor():
    assert given_to(with_priority(0), idle(with_priority(1))) == (1000, 50)


def test_nobody_is_told_a_rate():
    assert rates((), floor=FLOOR) == ()


tenants = st.builds(
    Tenant,
    mode=st.sampled_from(CoreMode),
    promise=st.integers(0, 1000).map(float),
    weight=st.integers(0, 100),
    priority=st.integers(0, 3),
    is_active=st.booleans(),
    demand=st.just(float("inf")) | st.floats(0, 1000),
)


@given(st.lists(tenants, max_size=8))
def test_a_lending_owner_never_gets_less_than_its_promise(group):
    for tenant, rate in zip(group, rates(group, floor=FLOOR), strict=True):
        assert 0 <= rate <= WHOLE
        if tenant.mode is CoreMode.LEND:
            assert rate >= tenant.promise
        if tenant.mode is CoreMode.PRIORITY:
            assert rate >= FLOOR


@given(st.lists(tenants.map(lambda t: replace(t, demand=float("inf"), is_active=True)), max_size=8))
def test_who_wants_all_is_never_given_more_than_there_is(group):
    promised = sum(max(FLOOR, t.promise) for t in group)

    assert sum(rates(group, floor=FLOOR)) <= max(WHOLE, promised) + len(group) * FLOOR + 1e-6


@pytest.mark.parametrize("weight", [0, 1, 2**32 - 1])
def test_any_weight_will_do(weight):
    assert given_to(lending(300, weight=weight), idle(lending(700)))[0] == 1000
