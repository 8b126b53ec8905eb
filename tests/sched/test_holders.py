from hamid.codec.disruption_budget import Budget
from hamid.codec.extender import NodeVictims
from hamid.sched.holders import held_nodes, longest_grace_s, time_of
from hamid.sched.nominations import Nomination, Nominations
from tests.sched.builders import make_allocation, make_share
from tests.sched.objects import bound, registered, waiting
from tests.sched.world import Clock, make_cache

NOW_S = 10_000.0
LEAVING = "1970-01-01T02:46:50Z"  # ten seconds after now
STUCK = "1970-01-01T02:40:00Z"


def cache_with(*pods):
    cache = make_cache()
    cache.take_nodes([registered()])
    cache.take_pods([waiting("new"), *pods])
    return cache


def holding(uid, *, labels=None, leaves_at=None, **spec):
    pod = bound(make_share("card-0"), uid=uid)
    pod["metadata"]["labels"] = labels or {}
    if leaves_at:
        pod["metadata"]["deletionTimestamp"] = leaves_at
    pod["spec"] |= spec
    return pod


def seen(cache, *, given=(), budgets=(), nominations=None):
    (node,) = held_nodes(
        cache,
        nominations or Nominations(clock=Clock(), freed=lambda _: None),
        record=cache.pod("new"),
        given={"node-a": NodeVictims(pod_uids=tuple(given)), "gone": NodeVictims(pod_uids=())},
        budgets=budgets,
        now_s=NOW_S,
    )
    return node


def test_those_with_cards_are_told_with_what_matters():
    pod = holding("low", labels={"app": "web"}, priority=7)
    pod["status"]["startTime"] = "1970-01-01T00:01:00Z"
    budget = Budget(
        key="default/kept", namespace="default", allowed=1, selector={"matchLabels": {"app": "web"}}
    )

    (holder,) = seen(cache_with(pod), budgets=[budget]).holders

    assert (holder.pod_uid, holder.priority, holder.started_at_s) == ("low", 7, 60.0)
    assert holder.budgets == {"default/kept"}
    assert not holder.is_leaving
    assert not holder.is_protected


def test_who_leaves_is_waited_for_but_not_without_end():
    leaving, stuck = seen(
        cache_with(holding("leaving", leaves_at=LEAVING), holding("stuck", leaves_at=STUCK))
    ).holders

    assert (leaving.is_leaving, leaving.is_protected) == (True, False)
    assert (stuck.is_leaving, stuck.is_protected) == (False, True)


def test_the_systems_own_are_protected():
    (holder,) = seen(cache_with(holding("system", priority=2_000_000_000))).holders

    assert holder.is_protected


def test_what_is_promised_to_others_is_in_the_way_and_their_victims_leave():
    nominations = Nominations(clock=Clock(), freed=lambda _: None)
    nominations.put(
        Nomination(
            allocation=make_allocation(make_share("card-0", memory_mib=5_000), uid="other"),
            priority=0,
            victims=frozenset({"victim"}),
            expires_at=1e9,
        )
    )

    found = seen(cache_with(holding("victim")), nominations=nominations)

    assert found.node.usages[0].memory_used_mib == 6_000
    assert [holder.is_leaving for holder in found.holders] == [True]


def test_a_node_without_holders_counts_where_others_are_evicted_anyway():
    found = seen(cache_with(), given=["web"])

    assert (found.holders, found.given) == ((), {"web"})


def test_the_longest_that_anybody_has_is_waited_for():
    cache = cache_with(
        holding("leaving", leaves_at=LEAVING),
        holding("patient", terminationGracePeriodSeconds=45),
        holding("another", terminationGracePeriodSeconds=600),
    )

    assert longest_grace_s(cache, set(), "node-a", NOW_S) == 10.0
    assert longest_grace_s(cache, {"patient"}, "node-a", NOW_S) == 45.0
    assert time_of("") == 0.0
