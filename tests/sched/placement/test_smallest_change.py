"""What is suggested helps, and less does not: on random nodes, and on what people meet."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hamid.model import names as wire
from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.quota import Bound, Limit, QuotaResource
from hamid.model.request import ContainerKind, DeviceSelection, PolicyName
from hamid.sched.placement.change import (
    DROPPABLE,
    Amount,
    ChangeKind,
    amount_of,
    applied,
    asked_of,
    with_amount,
    without,
)
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, Placement, place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import Kind
from hamid.sched.placement.smallest_change import smallest_changes, suggestions
from hamid.sched.placement.trials import alike
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import place_within
from tests.sched.builders import (
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
    whole_card,
)

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
    for kind in alike(request):
        names = {container.container_name for container in kind}
        lows = [low for low in change.lowered if low.container_name in names]
        for amount in {low.amount for low in lows}:
            more = applied(change, request, nodes)[0]
            for low in lows:
                if low.amount is amount:
                    more = with_amount(more, low.container_name, amount, low.fitting + 1)
            yield more, nodes
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


def bare(request):
    """The request at its least, without annotations."""
    request = without(request, DROPPABLE)
    for container in request.requests:
        name, memory = container.container_name, amount_of(ChangeKind.MEMORY, container)
        for amount, least in ((memory, 1), (Amount.CORES, 0), (Amount.CARDS, 1)):
            request = with_amount(request, name, amount, least)
    return request


@st.composite
def quotas(draw):
    """What is left under quotas for memory and cards, or none."""
    return [
        Bound(quota_name="q", limit=Limit(key=resource, resource=resource, hard=hard))
        for resource, most in ((QuotaResource.CARDS, 4), (QuotaResource.MEMORY_MIB, 2 * CARD_MIB))
        if (hard := draw(st.one_of(st.none(), st.integers(0, most)))) is not None
    ]


def fits_within(request, nodes, bounds):
    return any(
        isinstance(
            place_within(
                request,
                node,
                bounds=bounds,
                policies=Policies(),
                measure=Fragmentation(Arrivals().typical),
            ),
            NodePlacement,
        )
        for node in nodes
    )


@given(requests(), clusters(), quotas())
def test_there_is_a_change_or_a_true_remark_why_there_is_none(request_, nodes, bounds):
    assume(not fits_within(request_, nodes, bounds))
    found = suggestions(request_, nodes, Policies(), bounds=bounds)

    assert bool(found.changes) is not bool(found.remark)
    for change in found.changes:
        assert fits_within(*applied(change, request_, nodes), bounds), change.sentence
    if found.remark:
        free = [replace(node, cordoned=frozenset()) for node in nodes]
        do_together = "these together" in found.remark
        assert fits_within(bare(request_), free, bounds) is do_together, found.remark


@pytest.mark.parametrize("bounds", [1, 3])
def test_within_a_quota_of_cards_fewer_are_asked_for(bounds):
    limit = Limit(key="k", resource=QuotaResource.CARDS, hard=bounds)
    node = make_node(devices=make_devices(8))

    (change,) = suggestions(
        asking(count=8), [node], Policies(), bounds=[Bound(quota_name="q", limit=limit)]
    ).changes

    assert (change.kind, change.lowered[0].fitting) == (ChangeKind.CARDS, bounds)


WHOLE_USED = used(mib=1, cores=100)
REFUSED = {
    Kind.MEMORY: (asking(), make_node(usages=[used(mib=39_000)])),
    Kind.SIZE: (asking(50_000), make_node(usages=[used()])),
    Kind.CORES: (asking(cores=50), make_node(usages=[used(cores=70)])),
    Kind.CORES_PROMISED: (asking(), make_node(usages=[replace(WHOLE_USED, exclusive_count=0)])),
    Kind.SLOTS: (asking(), make_node(usages=[used(slots=10)])),
    Kind.IN_USE: (asking(cores=100), make_node(usages=[used(mib=1)])),
    Kind.HELD_WHOLE: (asking(), make_node(usages=[WHOLE_USED])),
    Kind.NUMA: (
        asking(count=2, is_numa_bound=True),
        make_node(usages=[used("a", numa_node=0), used("b", numa_node=1)]),
    ),
    Kind.NODE_IN_USE: (
        asking(node_policies=(PolicyName.MUTEX,)),
        make_node(usages=[used(mib=1)]),
    ),
    Kind.MODEL: (asking(selection=DeviceSelection(use_models=("T4",))), make_node()),
    Kind.UUID: (asking(selection=DeviceSelection(avoid_uuids=("card-a",))), make_node()),
    Kind.INDEX: (asking(selection=DeviceSelection(use_indices=(7,))), make_node()),
    Kind.MODE: (asking(allowed_modes=("mig",)), make_node()),
    Kind.HEALTH: (asking(), make_node(usages=[used(is_healthy=False)])),
    Kind.CORDON: (asking(), make_node(cordoned=("card-a",))),
}
NO_CHANGE_OF_THE_POD = {Kind.CORES_PROMISED, Kind.SLOTS, Kind.HELD_WHOLE, Kind.HEALTH}


@pytest.mark.parametrize("kind", Kind)
def test_whatever_a_pod_is_refused_for_there_is_a_change_or_a_remark(kind):
    request, node = REFUSED[kind]
    refusal = place(request, [node], policies=Policies()).refusals[node.node_name]
    assert kind in refusal.counts

    found = suggestions(request, [node], Policies())

    assert bool(found.remark) is (kind in NO_CHANGE_OF_THE_POD)
    assert bool(found.changes) is not bool(found.remark)


def test_without_any_card_the_remark_says_so():
    found = suggestions(asking(), [make_node(devices=[])], Policies())

    assert found.remark.endswith("no node that may take it registers a card")


@pytest.mark.parametrize(
    ("request_", "node", "said"),
    [
        pytest.param(
            asking(50_000, selection=DeviceSelection(use_models=("T4",))),
            make_node(),
            "drop annotation nvidia.com/use-gputype, and ask for 10000 MiB less "
            "(40000 instead of 50000) in container main",
            id="the model and the size",
        ),
        pytest.param(
            asking(50_000),
            make_node(cordoned=("card-a",)),
            "uncordon the cards of node node-a, and ask for 10000 MiB less "
            "(40000 instead of 50000) in container main",
            id="the cordon and the size",
        ),
        pytest.param(
            asking(selection=DeviceSelection(use_models=("T4",))),
            make_node(cordoned=("card-a",)),
            "drop annotation nvidia.com/use-gputype, and uncordon the cards of node node-a",
            id="the cordon and the model",
        ),
    ],
)
def test_what_only_helps_together_is_remarked(request_, node, said):
    found = suggestions(request_, [node], Policies())

    assert found.remark == f"No single change would make it fit, but these together: {said}"


@given(requests(), clusters())
def test_what_would_help_is_found(request_, nodes):
    assume(not fits(request_, nodes))
    found = {
        (c.kind, c.lowered[0].container_name if c.lowered else "")
        for c in smallest_changes(request_, nodes, Policies())
    }

    representatives = [kind[0] for kind in alike(request_)]
    for container in representatives:
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
        for container in representatives
    ):
        for container in representatives:
            name, memory = container.container_name, amount_of(ChangeKind.MEMORY, container)
            least = with_amount(with_amount(request_, name, Amount.CORES, 0), name, memory, 1)
            if container.core_percent and asked_of(container, memory) > 1 and fits(least, nodes):
                assert (ChangeKind.PART, name) in found
