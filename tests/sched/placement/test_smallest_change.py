"""What is suggested helps, and less does not: on random nodes, and on what people meet."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hamid.model import names as wire
from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import ContainerKind, DeviceSelection, PolicyName
from hamid.sched.placement.change import (
    Amount,
    ChangeKind,
    amount_of,
    applied,
    asked_of,
    with_amount,
    without,
)
from hamid.sched.placement.place import Placement, place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.smallest_change import smallest_changes
from tests.sched.builders import make_container, make_device, make_node, make_request, whole_card

CARD_MIB = 8
T4 = "NVIDIA-Tesla T4"


def fits(request, nodes):
    return isinstance(place(request, nodes, policies=Policies()), Placement)


def used(name="card-a", *, mib=0, cores=0, slots=None, **device):
    return DeviceUsage(
        device=make_device(name, **device),
        memory_used_mib=mib,
        core_used_percent=cores,
        slots_used=slots if slots is not None else int(bool(mib or cores)),
        exclusive_count=int(cores == 100),
    )


def suggested(request, *nodes):
    return {change.kind: change for change in smallest_changes(request, nodes, Policies())}


def asking(mib=3_000, *, cores=0, count=1, **overrides):
    container = make_container(memory=MemoryMib(mib=mib), core_percent=cores, device_count=count)
    return make_request(container, **overrides)


def test_nothing_is_suggested_for_a_pod_that_fits():
    assert smallest_changes(asking(), (make_node(),), Policies()) == ()


def test_less_memory_is_as_much_as_the_freest_card_has():
    nodes = [make_node("a", usages=[used(mib=39_000)]), make_node("b", usages=[used(mib=38_200)])]

    change = suggested(asking(), *nodes)[ChangeKind.MEMORY]

    assert change.node_name == "b"
    assert change.sentence == "ask for 1200 MiB less (1800 instead of 3000) in container main"


def test_fewer_cores_are_as_many_as_are_free():
    change = suggested(asking(cores=50), make_node(usages=[used(cores=70)]))[ChangeKind.CORES]

    assert (change.lowered[0].less, change.lowered[0].fitting) == (20, 30)


def test_one_card_fewer_may_do():
    node = make_node(usages=[used("a"), used("b"), used("c", mib=39_000)])

    found = suggested(asking(count=3), node)

    assert (
        found[ChangeKind.CARDS].sentence
        == "ask for 1 card fewer (2 instead of 3) in container main"
    )
    assert found[ChangeKind.MEMORY].lowered[0].fitting == 1_000


def test_a_part_of_a_card_may_do_where_all_are_in_use():
    node = make_node(usages=[used(mib=10_000, cores=40)])

    found = suggested(make_request(whole_card()), node)

    assert [(low.asked, low.fitting) for low in found[ChangeKind.PART].lowered] == [
        (100, 75),
        (100, 60),
    ]


@pytest.mark.parametrize(
    ("request_", "annotations"),
    [
        pytest.param(
            asking(selection=DeviceSelection(use_models=("T4",))), (wire.USE_MODEL,), id="model"
        ),
        pytest.param(
            asking(selection=DeviceSelection(avoid_uuids=("card-a",))),
            (wire.AVOID_UUID,),
            id="uuid",
        ),
        pytest.param(
            asking(selection=DeviceSelection(use_indices=(7,))), (wire.USE_INDEX,), id="index"
        ),
        pytest.param(asking(allowed_modes=("mig",)), (wire.VGPU_MODE,), id="mode"),
        pytest.param(
            asking(
                selection=DeviceSelection(
                    use_models=("T4",), avoid_models=("A100",), use_uuids=("card-a",)
                )
            ),
            (wire.USE_MODEL, wire.AVOID_MODEL),
            id="two that only help together, and not the third",
        ),
        pytest.param(
            asking(device_policies=(PolicyName.MUTEX,)), (wire.DEVICE_POLICY,), id="mutex"
        ),
        pytest.param(
            asking(node_policies=(PolicyName.MUTEX,)), (wire.NODE_POLICY,), id="mutex for nodes"
        ),
    ],
)
def test_annotations_are_dropped_that_stand_in_the_way(request_, annotations):
    found = suggested(request_, make_node(usages=[used(mib=1_000)]))

    assert found[ChangeKind.ANNOTATIONS].annotations == annotations


def test_binding_to_a_numa_node_may_be_dropped():
    node = make_node(usages=[used("a", numa_node=0), used("b", numa_node=1)])

    found = suggested(asking(count=2, is_numa_bound=True), node)

    assert found[ChangeKind.ANNOTATIONS].annotations == (wire.NUMA_BIND,)
    assert found[ChangeKind.CARDS].lowered[0].fitting == 1


def test_as_few_cards_as_possible_are_uncordoned():
    node = make_node(usages=[used("a"), used("b"), used("c")], cordoned=("a", "b"))

    change = suggested(asking(count=2), node)[ChangeKind.UNCORDON]

    assert change.sentence == "uncordon a of node node-a"


def test_a_node_without_cards_is_of_no_help():
    assert smallest_changes(asking(), (make_node(devices=[]),), Policies()) == ()


@st.composite
def usages(draw, index):
    device = make_device(
        f"card-{index}",
        device_index=index,
        memory_mib=CARD_MIB,
        slot_count=draw(st.integers(1, 3)),
        numa_node=draw(st.sampled_from([0, 1])),
        model=draw(st.sampled_from([T4, "NVIDIA A100-SXM4-40GB"])),
        is_healthy=draw(st.integers(0, 9)) > 0,
    )
    slots = draw(st.integers(0, device.slot_count))
    if not slots:
        return DeviceUsage(device=device)
    cores = draw(st.sampled_from([0, 30, 60, 100]))
    return DeviceUsage(
        device=device,
        slots_used=slots,
        memory_used_mib=draw(st.integers(0, CARD_MIB)),
        core_used_percent=cores,
        exclusive_count=int(cores == 100 and slots == 1),
    )


@st.composite
def clusters(draw):
    def node(number):
        count = draw(st.integers(0, 3))
        found = [draw(usages(index)) for index in range(count)]
        cordoned = [u.device.device_uuid for u in found if draw(st.integers(0, 3)) == 0]
        return make_node(f"n{number}", usages=found, cordoned=cordoned)

    return tuple(node(number) for number in range(draw(st.integers(1, 3))))


@st.composite
def requests(draw):
    memory = st.one_of(
        st.integers(1, CARD_MIB + 2).map(lambda mib: MemoryMib(mib=mib)),
        st.sampled_from([50, 100]).map(lambda percent: MemoryPercent(percent=percent)),
    )
    found = [
        make_container(
            f"c{index}",
            kind=draw(st.sampled_from(ContainerKind)),
            device_count=draw(st.integers(1, 3)),
            memory=draw(memory),
            core_percent=draw(st.sampled_from([0, 30, 60, 100])),
        )
        for index in range(draw(st.integers(1, 2)))
    ]
    found.sort(key=lambda c: c.kind is ContainerKind.APP)
    selection = DeviceSelection(
        use_models=draw(st.sampled_from([(), ("T4",)])),
        avoid_uuids=draw(st.sampled_from([(), ("card-0",)])),
    )
    return make_request(
        *found,
        selection=selection,
        is_numa_bound=draw(st.booleans()),
        device_policies=draw(st.sampled_from([(), (PolicyName.MUTEX,)])),
    )


def smaller(change, request, nodes):
    """The request and nodes after each change that is one step smaller."""
    for low in change.lowered:
        whole = applied(change, request, nodes)[0]
        yield with_amount(whole, low.container_name, low.amount, low.fitting + 1), nodes
    for name in change.annotations:
        yield without(request, [n for n in change.annotations if n != name]), nodes
    for uuid in change.device_uuids:
        fewer = tuple(u for u in change.device_uuids if u != uuid)
        yield applied(
            type(change)(kind=change.kind, node_name=change.node_name, device_uuids=fewer),
            request,
            nodes,
        )


@given(requests(), clusters())
def test_what_is_suggested_makes_the_pod_fit_and_anything_smaller_does_not(request_, nodes):
    outcome = place(request_, nodes, policies=Policies())
    assume(not isinstance(outcome, Placement))
    found = smallest_changes(request_, nodes, Policies())

    assert smallest_changes(request_, nodes, Policies(), refusals=outcome.refusals) == found
    for change in found:
        assert fits(*applied(change, request_, nodes)), change.sentence
        for request_then, nodes_then in smaller(change, request_, nodes):
            assert not fits(request_then, nodes_then), change.sentence


@given(requests(), clusters())
def test_what_would_help_is_found(request_, nodes):
    assume(not fits(request_, nodes))
    found = {
        (c.kind, c.lowered[0].container_name if c.lowered else "")
        for c in smallest_changes(request_, nodes, Policies())
    }

    for container in request_.requests:
        name = container.container_name
        for kind, amount, least in (
            (ChangeKind.CORES, "% of the cores", 0),
            (ChangeKind.CARDS, "cards", 1),
        ):
            if fits(with_amount(request_, name, amount, least), nodes):
                assert (kind, name) in found
    if found.isdisjoint(
        (kind, container.container_name)
        for kind in (ChangeKind.MEMORY, ChangeKind.CORES, ChangeKind.CARDS)
        for container in request_.requests
    ):
        for container in request_.requests:
            name, memory = container.container_name, amount_of(ChangeKind.MEMORY, container)
            least = with_amount(with_amount(request_, name, Amount.CORES, 0), name, memory, 1)
            if container.core_percent and asked_of(container, memory) > 1 and fits(least, nodes):
                assert (ChangeKind.PART, name) in found
