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


@pytest.mark.parametrize(("count", "is_told"), [(4, True), (5, False)])
def test_of_a_pod_of_many_containers_no_change_is_told(count, is_told):
    """A hundred of them took hours, and any tenant may create such a pod."""
    containers = [make_container(f"c{n}") for n in range(count - 1)]
    large = make_container("large", memory=MemoryMib(mib=50_000))

    found = outlook(make_request(*containers, large), [make_node()], Policies())

    assert found.sentence.startswith("no card of 1 fits")
    assert bool(found.changes) is is_told


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


def test_a_quota_is_told_first_and_no_change_of_cards_that_would_not_help():
    found = outlook(asking(50_000), [make_node()], Policies(), bounds=bounds(9))

    assert found.sentence.startswith("quota of namespace default: limits.nvidia.com/gpumem in")
    assert ". Besides, no card of 1 fits: 1 is too small" in found.sentence
    assert found.changes == ()


def test_a_quota_may_be_all_that_is_lacking():
    found = outlook(asking(10), [make_node()], Policies(), bounds=bounds(9))

    assert found.sentence.startswith("quota of namespace default")
    assert isinstance(found.outcome, Placement)


def test_a_percentage_may_be_too_much_on_every_card():
    half = make_request(make_container(memory=MemoryPercent(percent=50)), uid="new")

    assert outlook(half, [make_node()], Policies(), bounds=bounds(20_000)).over_quota is None
    found = outlook(half, [make_node()], Policies(), bounds=bounds(19_999))
    assert "20000 asked" in found.sentence


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
