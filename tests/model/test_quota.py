import pytest

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.quantities import MemoryPercent
from hamid.model.quota import (
    Charge,
    Limit,
    Operator,
    Payer,
    Quota,
    QuotaResource,
    ScopeName,
    ScopeRule,
    charge,
    copies,
    exceeding,
    is_charge_fixed,
    least_charge,
    overdrafts,
    tightest,
)
from hamid.model.request import ContainerKind
from tests.sched.builders import make_container, make_request, make_share

MEMORY = QuotaResource.MEMORY_MIB


def limit(hard, resource=MEMORY):
    return Limit(key=f"limits.{resource.name}", resource=resource, hard=hard)


def quota(*limits, name="cards", scopes=(), namespace="default"):
    return Quota(namespace=namespace, name=name, limits=limits, scopes=tuple(scopes))


def given(kind, *shares, name="main"):
    return ContainerAllocation(container_name=name, kind=kind, shares=shares)


def allocation(*containers):
    return PodAllocation(pod_uid="uid-1", node_name="node-a", containers=containers)


def test_a_pod_is_charged_for_each_of_its_cards():
    shares = (
        make_share("a", memory_mib=2_048, core_percent=20),
        make_share("b", memory_mib=2_048, core_percent=20),
    )

    found = charge(allocation(given(ContainerKind.APP, *shares)))

    assert found == Charge(cards=2, memory_mib=4_096, core_percent=40)


@pytest.mark.parametrize(("is_initialized", "memory_mib"), [(False, 10), (True, 9)])
def test_init_containers_count_by_their_peak_until_they_are_done(is_initialized, memory_mib):
    found = charge(
        allocation(
            given(ContainerKind.INIT, make_share("a", memory_mib=10)),
            given(ContainerKind.SIDECAR, make_share("a", memory_mib=3)),
            given(ContainerKind.INIT, make_share("b", memory_mib=4)),
            given(ContainerKind.APP, make_share("b", memory_mib=6)),
        ),
        is_initialized=is_initialized,
    )

    assert found.memory_mib == memory_mib
    assert found.cards == 2


def test_the_least_charge_takes_a_percentage_for_next_to_nothing():
    request = make_request(
        make_container("a", device_count=2, core_percent=30),
        make_container("b", memory=MemoryPercent(percent=50)),
    )

    assert least_charge(request) == Charge(cards=3, memory_mib=2_001, core_percent=60)
    assert not is_charge_fixed(request)
    assert is_charge_fixed(make_request())


def rule(scope, operator=Operator.EXISTS, *values):
    return ScopeRule(scope=scope, operator=operator, values=values)


CLASS = ScopeName.PRIORITY_CLASS


@pytest.mark.parametrize(
    ("scope", "traits", "other"),
    [
        (rule(ScopeName.TERMINATING), {"is_terminating": True}, {}),
        (rule(ScopeName.NOT_TERMINATING), {}, {"is_terminating": True}),
        (rule(ScopeName.BEST_EFFORT), {"is_best_effort": True}, {}),
        (rule(ScopeName.NOT_BEST_EFFORT), {}, {"is_best_effort": True}),
        (rule(ScopeName.CROSS_NAMESPACE_AFFINITY), {"is_cross_namespace": True}, {}),
        (rule(CLASS), {"priority_class": "high"}, {}),
        (rule(CLASS, Operator.DOES_NOT_EXIST), {}, {"priority_class": "high"}),
        (rule(CLASS, Operator.IN, "high"), {"priority_class": "high"}, {"priority_class": "low"}),
        (rule(CLASS, Operator.IN, "high"), {"priority_class": "high"}, {}),
        (
            rule(CLASS, Operator.NOT_IN, "high"),
            {"priority_class": "low"},
            {"priority_class": "high"},
        ),
    ],
)
def test_a_scope_decides_whom_a_quota_binds(scope, traits, other):
    found = quota(limit(1), scopes=[scope])

    assert found.binds(Payer(namespace="default", **traits))
    assert not found.binds(Payer(namespace="default", **other))


def test_not_in_speaks_of_pods_without_a_class_too():
    found = quota(limit(1), scopes=[rule(CLASS, Operator.NOT_IN, "high")])

    assert found.binds(Payer(namespace="default"))


def test_all_scopes_must_match_and_an_unknown_one_never_does():
    payer = Payer(namespace="default", is_terminating=True)

    assert not quota(scopes=[rule(ScopeName.TERMINATING), rule(CLASS)]).binds(payer)
    assert not quota(scopes=[rule(None)]).binds(payer)


def test_a_quota_binds_its_own_namespace_only():
    assert not quota(limit(1)).binds(Payer(namespace="other"))


def test_of_several_quotas_the_one_with_the_least_left_counts():
    wide = quota(limit(9_000), limit(5, QuotaResource.CARDS), name="wide")
    narrow = quota(limit(10_000), name="narrow")

    bounds = tightest([(wide, Charge(cards=1, memory_mib=100)), (narrow, Charge(memory_mib=5_000))])

    assert [(b.quota_name, b.limit.resource, b.left) for b in bounds] == [
        ("wide", QuotaResource.CARDS, 4),
        ("narrow", MEMORY, 5_000),
    ]


def test_what_is_asked_beyond_a_bound_is_told_with_numbers():
    (bound,) = tightest([(quota(limit(4_096)), Charge(memory_mib=4_096))])

    (over,) = overdrafts([bound], Charge(memory_mib=1, core_percent=10))

    assert (over.asked, over.excess, over.bound.limit.hard, over.bound.used) == (1, 1, 4_096, 4_096)
    assert overdrafts([bound], Charge(core_percent=10)) == ()


def test_what_is_not_asked_may_be_overdrawn():
    bounds = tightest([(quota(limit(10, QuotaResource.CORE_PERCENT)), Charge(core_percent=40))])

    assert overdrafts(bounds, Charge(cards=1, memory_mib=5)) == ()
    assert overdrafts(bounds, Charge(core_percent=1))


def test_copies_are_as_many_as_the_tightest_bound_has_room_for():
    bounds = tightest(
        [(quota(limit(10_000), limit(3, QuotaResource.CARDS)), Charge(memory_mib=1_000))]
    )

    assert copies(bounds, Charge(cards=1, memory_mib=2_000)) == 3
    assert copies(bounds, Charge(cards=1, memory_mib=4_000)) == 2
    assert copies(bounds, Charge(core_percent=5)) is None


def test_charges_add_up_and_down():
    one, two = Charge(cards=2, memory_mib=10, core_percent=5), Charge(cards=1, memory_mib=4)

    assert one + two == Charge(cards=3, memory_mib=14, core_percent=5)
    assert one - two == Charge(cards=1, memory_mib=6, core_percent=5)


def test_what_exceeds_a_quota_does_so_however_little_is_used():
    request = make_request(make_container(memory=MemoryPercent(percent=50)))

    (over,) = exceeding(request, [quota(limit(0)), quota(limit(9_000), name="wide")])

    assert (over.bound.quota_name, over.bound.used, over.is_least) == ("cards", 0, True)


def test_of_two_quotas_that_leave_the_same_the_first_by_name_counts():
    both = [(quota(limit(5), name=name), Charge()) for name in ("a", "b")]

    (bound,) = tightest(both)

    assert bound.quota_name == "a"
