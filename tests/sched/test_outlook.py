import pytest

from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.quota import Bound, Limit, QuotaResource
from hamid.model.request import PolicyName
from hamid.sched.outlook import outlook, tenants_of
from hamid.sched.placement.change import ChangeKind
from hamid.sched.placement.departure import Tenant
from hamid.sched.placement.place import Placement, place, with_allocation
from hamid.sched.placement.policy import Policies
from hamid.sched.records import PodRecord
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_devices,
    make_node,
    make_request,
    make_share,
)


def asking(mib, **overrides):
    return make_request(make_container(memory=MemoryMib(mib=mib)), uid="new", **overrides)


def test_a_pod_that_fits_has_nothing_to_change():
    found = outlook(asking(1), [make_node()], Policies())

    assert isinstance(found.outcome, Placement)
    assert (found.changes, found.sentence) == ((), "")


def test_what_lacks_and_all_that_would_help_is_told():
    held = make_allocation(make_share(memory_mib=30_000), uid="old")
    node = with_allocation(make_node(), held)
    tenant = Tenant(pod_key="default/old", allocation=held)

    found = outlook(asking(20_000), [node], Policies(), tenants=[tenant])

    assert found.sentence.startswith("no card of 1 fits: 1 lacks memory")
    assert [change.kind for change in found.changes] == [ChangeKind.MEMORY, ChangeKind.DEPARTURE]


def many(count, mib=1_000):
    """A pod of so many containers, one of which is too large."""
    containers = [make_container(f"c{n}", memory=MemoryMib(mib=mib + n)) for n in range(count - 1)]
    large = make_container("large", memory=MemoryMib(mib=50_000))
    return make_request(*containers, large)


@pytest.mark.parametrize("count", [4, 5, 12])
def test_of_a_pod_of_many_containers_a_change_is_told_too(count):
    found = outlook(many(count, mib=10), [make_node(devices=make_devices(4))], Policies())

    (change,) = found.changes
    assert change.kind is ChangeKind.MEMORY
    assert change.lowered[-1].container_name == "large"
    assert change.lowered[-1].fitting > 39_000


def test_of_a_pod_of_very_many_containers_not_everything_is_tried():
    """Any tenant may create such a pod."""
    nodes = [make_node(f"n{n}", devices=make_devices(2)) for n in range(3)]

    found = outlook(many(30, mib=30_000), nodes, Policies())

    assert found.changes == ()
    assert found.remark == "What would make it fit was not found among the changes that were tried"


def test_only_nodes_that_were_offered_are_judged():
    nodes = [make_node("a"), make_node("b"), make_node("c", devices=())]

    found = outlook(asking(50_000), nodes, Policies(), offered=frozenset({"a"}))

    assert found.sentence.startswith("no card of 1 fits: 1 is too small")
    assert found.sentence.endswith("; kube-scheduler did not offer 2 nodes")


def test_where_none_was_offered_those_without_processors_are_set_aside():
    poor = make_node("poor", host_free=HostAmount(cpu_milli=100, memory_mib=9_999))
    request = asking(50_000, host=HostAmount(cpu_milli=200))

    found = outlook(request, [poor, make_node("rich")], Policies())

    assert found.set_aside_count == 1
    assert found.sentence.endswith("; 1 node without the processors or the main memory")


def bounds(left):
    limit = Limit(key="limits.nvidia.com/gpumem", resource=QuotaResource.MEMORY_MIB, hard=left)
    return [Bound(quota_name="cards", limit=limit)]


def test_a_quota_is_told_first_and_changes_keep_within_it():
    found = outlook(asking(50_000), [make_node()], Policies(), bounds=bounds(9))

    assert found.sentence.startswith("quota of namespace default: limits.nvidia.com/gpumem in")
    assert ". Besides, no card of 1 fits: 1 is too small" in found.sentence
    assert [change.sentence for change in found.changes] == [
        "ask for 49991 MiB less (9 instead of 50000) in container main"
    ]


def test_of_several_cards_a_quota_may_leave_fewer_or_less_of_each():
    several = make_request(make_container(device_count=3, memory=MemoryMib(mib=10)), uid="new")
    node = make_node(devices=make_devices(3))

    found = outlook(several, [node], Policies(), bounds=bounds(20))

    assert {change.kind: change.lowered[0].fitting for change in found.changes} == {
        ChangeKind.MEMORY: 6,
        ChangeKind.CARDS: 2,
    }


def test_where_a_quota_leaves_nothing_it_is_said_how_much_it_must():
    found = outlook(asking(10), [make_node()], Policies(), bounds=bounds(0))

    assert found.changes == ()
    assert found.remark == (
        "No change of the pod would make it fit: its quotas must leave at least "
        "10 MiB of card memory more"
    )


def test_a_smaller_percentage_may_keep_within_a_quota():
    half = make_request(make_container(memory=MemoryPercent(percent=50)), uid="new")

    found = outlook(half, [make_node()], Policies(), bounds=bounds(4_000))

    assert [change.lowered[0].fitting for change in found.changes] == [10]


def test_whose_end_would_help_is_a_change_and_needs_no_remark():
    held = make_allocation(make_share(core_percent=100), uid="old")
    node = with_allocation(make_node(), held)

    found = outlook(asking(1), [node], Policies(), tenants=[Tenant(pod_key="a/b", allocation=held)])
    alone = outlook(asking(1), [node], Policies())

    assert ([change.kind for change in found.changes], found.remark) == ([ChangeKind.DEPARTURE], "")
    assert alone.remark.startswith("No change of the pod would make it fit: room comes when")


def test_a_quota_may_be_all_that_is_lacking():
    found = outlook(asking(10), [make_node()], Policies(), bounds=bounds(9))

    assert found.sentence.startswith("quota of namespace default")
    assert isinstance(found.outcome, Placement)


def test_a_percentage_may_be_too_much_on_every_card():
    half = make_request(make_container(memory=MemoryPercent(percent=50)), uid="new")

    assert outlook(half, [make_node()], Policies(), bounds=bounds(20_000)).over_quota is None
    found = outlook(half, [make_node()], Policies(), bounds=bounds(19_999))
    assert "20000 asked" in found.sentence


def test_why_nodes_that_registered_cards_have_none_to_give_is_said():
    nodes = [make_node(name, devices=()) for name in "abcd"]
    away = "the kubelet offers no slots: the device plugin is away"
    problems = {"a": away, "b": away, "c": "unreadable", "gone": "x"}

    found = outlook(asking(1), nodes, Policies(), problems=problems)

    assert found.sentence.startswith("none of 4 nodes registers a card")
    assert found.sentence.endswith(f"; of 2 nodes: {away}; of 1 node: unreadable")


def test_tenants_are_the_pods_that_hold_cards():
    held = make_allocation()
    record = {"namespace": "team", "pod_uid": "u", "node_name": "node-a"}
    holding = PodRecord(
        **record, pod_name="p", allocation=held, priority=7, created_at="2026", is_initialized=True
    )

    assert list(tenants_of([holding, PodRecord(**record, pod_name="q")])) == [
        Tenant(
            pod_key="team/p", allocation=held, priority=7, created_at="2026", is_initialized=True
        )
    ]


@pytest.mark.parametrize("own", [(), (PolicyName.MUTEX,), (PolicyName.SPREAD,)], ids=str)
@pytest.mark.parametrize("of_the_cluster", [PolicyName.FRAGMENTATION, PolicyName.MUTEX])
def test_a_refusal_is_the_same_as_when_the_pod_is_placed(own, of_the_cluster):
    policies = Policies(device=(of_the_cluster,))
    held = make_allocation(make_share(memory_mib=30_000), uid="old")
    nodes = [with_allocation(make_node("node-a"), held), make_node("b", cordoned=["card-a"])]
    for mib in (5_000, 20_000, 50_000):
        request = asking(mib, device_policies=own)

        assert outlook(request, nodes, policies).outcome == place(request, nodes, policies=policies)
