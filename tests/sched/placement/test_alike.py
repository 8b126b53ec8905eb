from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import ContainerKind, PolicyName
from hamid.sched.placement import rows
from hamid.sched.placement.place import Placement, place, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.rows import Placer
from tests.sched.builders import by_name, make_container, make_device, make_node, make_request

POLICIES = Policies()


def node(number, *used_mib, numa=0):
    """Cards of its own, so many MiB of each in use."""
    devices = [make_device(f"card-{number}-{n}", numa_node=numa) for n in range(len(used_mib))]
    usages = [
        DeviceUsage(device=device, memory_used_mib=mib)
        for device, mib in zip(devices, used_mib, strict=True)
    ]
    return make_node(f"node-{number}", usages=usages)


def of_two(first_mib, main_mib, **overrides):
    first = make_container("first", kind=ContainerKind.INIT, memory=MemoryMib(mib=first_mib))
    return make_request(first, make_container("main", memory=MemoryMib(mib=main_mib)), **overrides)


def searches(monkeypatch):
    """The nodes that were searched, from now on."""
    seen = []

    def counted(request, node, **kwargs):
        seen.append(node.node_name)
        return place_on_node(request, node, **kwargs)

    monkeypatch.setattr(rows, "place_on_node", counted)
    return seen


def test_nodes_in_the_same_state_are_searched_once(monkeypatch):
    seen = searches(monkeypatch)
    nodes = [node(number, 0, 1_000 * (number % 2)) for number in range(10)]

    found = Placer(policies=POLICIES).place(of_two(500, 500), by_name(nodes))

    assert seen == ["node-0", "node-1"]
    assert len(found.ranked) == 10


def test_each_node_gives_its_own_cards():
    nodes = [node(number, 9_000, 0) for number in range(3)]

    found = Placer(policies=POLICIES).place(of_two(500, 500), by_name(nodes))

    for placement in found.ranked:
        uuids = {s.device_uuid for c in placement.containers for s in c.shares}
        here = next(n for n in nodes if n.node_name == placement.node_name)
        assert uuids <= {usage.device.device_uuid for usage in here.usages}


def test_nodes_whose_cards_are_elsewhere_on_the_board_are_not_alike(monkeypatch):
    seen = searches(monkeypatch)

    Placer(policies=POLICIES).place(of_two(500, 500), by_name([node(0, 0), node(1, 0, numa=1)]))

    assert seen == ["node-0", "node-1"]


AMOUNTS = st.sampled_from([0, 10_000, 39_000])


@given(
    st.lists(st.lists(AMOUNTS, min_size=1, max_size=3), min_size=1, max_size=6),
    st.sampled_from([500, 20_000, 50_000]),
    st.sampled_from([500, 20_000]),
    st.sampled_from([(), (PolicyName.SPREAD,), (PolicyName.MUTEX,)]),
)
def test_the_answer_is_that_of_place_also_to_those_who_ask_what_each_card_lacks(
    used, first_mib, main_mib, policy
):
    nodes = [node(number, *each) for number, each in enumerate(used)]
    request = of_two(first_mib, main_mib, device_policies=policy)

    found = Placer(policies=POLICIES).place(request, by_name(nodes))

    wanted = place(request, nodes, policies=POLICIES)
    assert type(found) is type(wanted)
    assert dict(found.refusals) == dict(wanted.refusals)
    if isinstance(wanted, Placement):
        assert list(found.ranked) == list(wanted.ranked)
