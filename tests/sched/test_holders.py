import pytest

from hamid.codec.disruption_budget import Budget
from hamid.codec.extender import NodeVictims
from hamid.sched.holders import Holdings, longest_grace_s, time_of
from hamid.sched.sinks import PodSink
from tests.builders import container_object, pod_object
from tests.sched.builders import make_share
from tests.sched.objects import bound, deleted, registered, waiting
from tests.sched.world import make_cache

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


def seen(cache, *, given=(), **known):
    (node,) = Holdings(records=cache.pod_records(), now_s=NOW_S, **known).on(
        cache.known(("node-a",)), {"node-a": NodeVictims(pod_uids=tuple(given))}
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


def test_who_is_evicted_for_another_leaves():
    (holder,) = seen(cache_with(holding("victim")), victims=frozenset({"victim"})).holders

    assert holder.is_leaving


@pytest.mark.parametrize(
    ("spared", "protected"),
    [
        pytest.param(None, [False, False, False], id="evicted by deletion"),
        pytest.param(frozenset(), [True, False, False], id="by the API, all but of two budgets"),
        pytest.param(frozenset({"refused"}), [True, False, True], id="and whom it has refused"),
    ],
)
def test_who_cannot_be_evicted_is_protected_where_it_is_asked(spared, protected):
    cache = cache_with(
        holding("two", labels={"app": "web", "tier": "front"}),
        holding("one", labels={"app": "web"}),
        holding("refused"),
    )
    budgets = [
        Budget(key=key, namespace="default", allowed=5, selector={"matchLabels": {key: value}})
        for key, value in (("app", "web"), ("tier", "front"))
    ]

    holders = seen(cache, budgets=budgets, spared=spared).holders

    assert [holder.is_protected for holder in holders] == protected


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


def test_who_holds_no_cards_is_waited_for_as_well():
    """kube-scheduler evicts it for its CPU; the cards are promised until it has ended."""
    plain = container_object("main")
    server = pod_object(plain, name="server", uid="server", node_name="node-a")
    server["spec"]["terminationGracePeriodSeconds"] = 300
    cache = cache_with(server)
    assert cache.pod("server") is None

    assert longest_grace_s(cache, {"server"}, "node-a", NOW_S) == 300.0

    PodSink(cache).apply(deleted(server))
    assert longest_grace_s(cache, {"server"}, "node-a", NOW_S) == 0.0
