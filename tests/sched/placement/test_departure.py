"""Whose departure makes room: what is named helps alone, and nobody less important would."""

from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.placement.capacity import freed
from hamid.sched.placement.departure import Tenant, departure
from hamid.sched.placement.place import Placement, place, with_allocation
from hamid.sched.placement.policy import Policies
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
    make_share,
    whole_card,
)


def tenant(name, *shares, node="node-a", priority=0, created_at="2026-01-01T00:00:00Z"):
    return Tenant(
        pod_key=f"default/{name}",
        allocation=make_allocation(*shares, uid=name, node_name=node),
        priority=priority,
        created_at=created_at,
    )


def taken(node, *tenants):
    for each in tenants:
        if each.allocation.node_name == node.node_name:
            node = with_allocation(node, each.allocation)
    return node


def asking(mib, *, count=1, **overrides):
    return make_request(
        make_container(memory=MemoryMib(mib=mib), device_count=count), uid="new", **overrides
    )


def share(mib, card="card-a"):
    return make_share(card, memory_mib=mib)


def named(request, nodes, *tenants, policies=None):
    found = departure(request, nodes, tenants, policies or Policies())
    return None if found is None else found.pod_key


def test_it_is_the_least_important_pod_whose_room_is_enough():
    small = tenant("small", share(5_000))
    cheap = tenant("cheap", share(15_000), priority=1)
    dear = tenant("dear", share(20_000), priority=9)
    node = taken(make_node(), small, cheap, dear)

    found = departure(asking(14_000), [node], [dear, cheap, small], Policies())

    assert (found.pod_key, found.node_name, found.pod_priority) == ("default/cheap", "node-a", 1)
    assert found.sentence == "delete pod default/cheap (priority 1)"


def test_of_equal_ones_it_is_the_youngest():
    old = tenant("old", share(20_000), created_at="2026-01-01T00:00:00Z")
    young = tenant("young", share(20_000), created_at="2026-02-01T00:00:00Z")

    assert named(asking(9_000), [taken(make_node(), old, young)], old, young) == "default/young"


def test_nobody_is_named_where_one_is_not_enough():
    one, other = tenant("one", share(20_000)), tenant("other", share(20_000))

    assert named(asking(30_000), [taken(make_node(), one, other)], one, other) is None


def test_nobody_is_named_whose_card_would_not_do_anyway():
    here = tenant("here", share(20_000))
    ill = make_node(devices=(make_device(is_healthy=False),))

    assert named(asking(30_000), [taken(ill, here)], here) is None
    assert named(asking(30_000), [taken(make_node(cordoned=["card-a"]), here)], here) is None
    assert named(asking(50_000), [taken(make_node(), here)], here) is None


def test_a_pod_of_several_cards_may_need_only_one_of_them_back():
    both = tenant("both", share(30_000, "card-0"), share(30_000, "card-1"))
    one = tenant("one", share(5_000, "card-0"))
    node = taken(make_node(devices=make_devices(2)), both, one)

    assert named(make_request(whole_card(), uid="new"), [node], both, one) == "default/both"


def test_pods_on_other_nodes_than_the_offered_ones_are_not_named():
    there = tenant("there", share(30_000), node="node-b")
    nodes = [taken(make_node(), tenant("x", share(30_000)))]

    assert named(asking(20_000), nodes, there) is None


def test_under_mutex_a_card_must_be_free_of_all():
    one, other = tenant("one", share(1_000)), tenant("other", share(1_000))
    by_mutex = Policies(device=(PolicyName.MUTEX,))
    asked = asking(1_000)

    assert named(asked, [taken(make_node(), one)], one, policies=by_mutex) == "default/one"
    assert named(asked, [taken(make_node(), one, other)], one, other, policies=by_mutex) is None


def test_under_mutex_for_nodes_a_node_must_be_free_of_all():
    one, other = tenant("one", share(1_000)), tenant("other", share(1_000, "card-b"))
    devices = [make_device(f"card-{name}") for name in "ab"]
    by_mutex = Policies(node=(PolicyName.MUTEX,))
    asked = asking(1_000, count=2)

    assert named(asked, [taken(make_node(devices=devices), one)], one, policies=by_mutex) == (
        "default/one"
    )
    both = [taken(make_node(devices=devices), one, other)]
    assert named(asked, both, one, other, policies=by_mutex) is None


CARD_MIB = 10


@given(
    held=st.lists(
        st.tuples(
            st.sampled_from(["card-0", "card-1"]), st.integers(1, CARD_MIB), st.integers(0, 2)
        ),
        max_size=6,
    ),
    asked=st.integers(1, CARD_MIB),
    count=st.integers(1, 2),
    is_numa_bound=st.booleans(),
)
def test_it_is_what_trying_each_pod_in_turn_finds(held, asked, count, is_numa_bound):
    node, tenants = make_node(devices=make_devices(2, memory_mib=CARD_MIB, numa_node=0)), []
    for number, (card, mib, priority) in enumerate(held):
        each = tenant(f"t{number}", share(mib, card), priority=priority)
        after = with_allocation(node, each.allocation)
        if all(usage.memory_free_mib >= 0 for usage in after.usages):
            node = after
            tenants.append(each)
    request = asking(asked, count=count, is_numa_bound=is_numa_bound)
    if isinstance(place(request, [node], policies=Policies()), Placement):
        return

    helping = [
        each
        for each in sorted(tenants, key=lambda t: t.pod_key, reverse=True)
        if isinstance(
            place(request, [freed(node, each.allocation)], policies=Policies()), Placement
        )
    ]
    wanted = min(helping, key=lambda each: each.priority, default=None)

    assert named(request, [node], *tenants) == (wanted and wanted.pod_key)
    refusals = place(request, [node], policies=Policies()).refusals
    again = departure(request, [node], tenants, Policies(), refusals=refusals)
    assert (again and again.pod_key) == (wanted and wanted.pod_key)


def test_usages_without_a_tenant_are_nobodys_to_give_back():
    usage = DeviceUsage(device=make_device(), memory_used_mib=39_000, slots_used=1)

    assert named(asking(30_000), [make_node(usages=[usage])]) is None
