from dataclasses import replace

import pytest

from hamid.model.device import DeviceUsage
from hamid.model.node import HostAmount
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import ContainerKind, LoadWeights, PolicyName
from hamid.model.shortfall import Resource
from hamid.sched.placement.place import (
    NodePlacement,
    Placement,
    Unplaceable,
    place,
    place_on_node,
)
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import Refusal
from tests.sched.builders import (
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
    whole_card,
)

BINPACK = Policies(node=(PolicyName.BINPACK,), device=(PolicyName.BINPACK,))
SPREAD = Policies(node=(PolicyName.SPREAD,), device=(PolicyName.SPREAD,))


def used(name, used_mib, *, index=0, **overrides):
    device = make_device(name, device_index=index, **overrides)
    return DeviceUsage(device=device, slots_used=1, memory_used_mib=used_mib)


def given(outcome):
    assert isinstance(outcome, NodePlacement), outcome
    return {c.container_name: [share.device_uuid for share in c.shares] for c in outcome.containers}


def container(name, mib, kind=ContainerKind.APP, **overrides):
    return make_container(name, memory=MemoryMib(mib=mib), kind=kind, **overrides)


# Devices of one node: the input of field report d 8.
HALF_FULL = (
    used("a", 36_000, index=0),
    used("b", 28_000, index=1),
    used("c", 12_000, index=2),
    used("d", 4_000, index=3),
)


@pytest.mark.parametrize(
    ("policies", "count", "expected"),
    [
        pytest.param(SPREAD, 1, ["d"], id="spread takes the emptiest card"),
        pytest.param(BINPACK, 1, ["a"], id="binpack takes the fullest card that fits"),
        pytest.param(SPREAD, 2, ["d", "c"], id="two spread cards are the two emptiest"),
        pytest.param(BINPACK, 2, ["a", "b"], id="two packed cards are the two fullest"),
    ],
)
def test_devices_are_chosen_by_policy(policies, count, expected):
    request = make_request(make_container(device_count=count))

    outcome = place_on_node(request, make_node(usages=HALF_FULL), policies=policies)

    assert given(outcome) == {"main": expected}


def test_equal_devices_are_taken_by_index():
    outcome = place_on_node(make_request(), make_node(devices=make_devices(3)), policies=SPREAD)

    assert given(outcome) == {"main": ["card-0"]}


def test_the_pods_annotation_outranks_the_clusters_default():
    request = make_request(device_policies=(PolicyName.SPREAD,))

    outcome = place_on_node(request, make_node(usages=HALF_FULL), policies=BINPACK)

    assert given(outcome) == {"main": ["d"]}


def test_a_container_gets_distinct_cards():
    request = make_request(make_container(device_count=2))

    outcome = place_on_node(request, make_node(devices=make_devices(1)), policies=BINPACK)

    assert [s.resource for s in outcome.shortfalls] == [Resource.DEVICE_COUNT]
    assert (outcome.needed_count, outcome.fitting_count, outcome.card_count) == (2, 1, 1)


def test_a_percentage_is_booked_on_the_card_really_chosen():
    devices = (
        make_device("small", device_index=0, memory_mib=16_000),
        make_device("large", device_index=1, memory_mib=24_000),
    )
    request = make_request(
        make_container(device_count=2, memory=MemoryPercent(percent=50)),
    )

    outcome = place_on_node(request, make_node(devices=devices), policies=BINPACK)

    shares = outcome.containers[0].shares
    assert {s.device_uuid: s.memory_mib for s in shares} == {"small": 8_000, "large": 12_000}


def test_app_containers_add_up_on_one_card():
    request = make_request(container("a", 9_000), container("b", 9_000))

    fits = place_on_node(
        request, make_node(devices=make_devices(1, memory_mib=18_000)), policies=BINPACK
    )
    refused = place_on_node(
        request, make_node(devices=make_devices(1, memory_mib=17_999)), policies=BINPACK
    )

    assert given(fits) == {"a": ["card-0"], "b": ["card-0"]}
    assert [s.resource for s in refused.shortfalls] == [Resource.DEVICE_COUNT, Resource.MEMORY_MIB]


INIT_PEAK = (
    container("i1", 10_000, ContainerKind.INIT),
    container("i2", 10_000, ContainerKind.INIT),
    container("i3", 10_000, ContainerKind.INIT),
    container("app", 4_000),
)
SIDECAR_SUM = (
    container("i1", 10_000, ContainerKind.INIT),
    container("s1", 3_000, ContainerKind.SIDECAR),
    container("app", 8_000),
)
SIDECAR_BEFORE_INIT = (
    container("s1", 3_000, ContainerKind.SIDECAR),
    container("i1", 10_000, ContainerKind.INIT),
    container("app", 8_000),
)


@pytest.mark.parametrize(
    ("containers", "peak_mib"),
    [
        pytest.param(INIT_PEAK, 10_000, id="init containers run one after another"),
        pytest.param(SIDECAR_SUM, 11_000, id="a sidecar stays beside the app"),
        pytest.param(
            SIDECAR_BEFORE_INIT, 13_000, id="an earlier sidecar runs beside an init container"
        ),
    ],
)
def test_what_is_checked_is_what_is_booked(containers, peak_mib):
    request = make_request(*containers)

    fits = place_on_node(
        request, make_node(devices=make_devices(1, memory_mib=peak_mib)), policies=BINPACK
    )
    refused = place_on_node(
        request, make_node(devices=make_devices(1, memory_mib=peak_mib - 1)), policies=BINPACK
    )

    assert fits.allocation("uid-1").holds()["card-0"].memory_mib == peak_mib
    assert not isinstance(refused, NodePlacement)


def test_an_app_container_takes_the_card_of_its_pods_init_container():
    """The kubelet hands the slots of init containers on to app containers."""
    request = make_request(container("init", 30_000, ContainerKind.INIT), container("app", 1_000))
    usages = (used("a", 20_000, index=0), used("b", 1_000, index=1))

    outcome = place_on_node(request, make_node(usages=usages), policies=BINPACK)

    assert given(outcome) == {"init": ["b"], "app": ["b"]}


def test_a_card_taken_over_from_an_init_container_is_not_handed_on_twice():
    request = make_request(
        container("init", 1_000, ContainerKind.INIT), container("a", 1_000), container("b", 1_000)
    )

    outcome = place_on_node(request, make_node(devices=make_devices(2)), policies=SPREAD)

    assert given(outcome) == {"init": ["card-0"], "a": ["card-0"], "b": ["card-1"]}


def test_another_choice_is_tried_where_the_preferred_one_leaves_no_room():
    """Binpack would put the small container onto the only card that is large enough for `big`."""
    request = make_request(container("small", 1_000), container("big", 20_000))
    usages = (
        used("roomy", 20_000, index=0),
        used("tight", 1_000, index=1, memory_mib=10_000),
    )

    outcome = place_on_node(request, make_node(usages=usages), policies=BINPACK)

    assert given(outcome) == {"small": ["tight"], "big": ["roomy"]}


def test_a_whole_card_is_shared_with_nobody_not_even_in_the_pod():
    request = make_request(whole_card("whole"), make_container("other"))

    outcome = place_on_node(request, make_node(devices=make_devices(2)), policies=BINPACK)
    refused = place_on_node(request, make_node(devices=make_devices(1)), policies=BINPACK)

    assert given(outcome) == {"whole": ["card-0"], "other": ["card-1"]}
    assert Resource.EXCLUSIVITY in {s.resource for s in refused.shortfalls}


def test_an_init_container_may_have_the_whole_card_before_the_app_has_a_part():
    request = make_request(whole_card("init", kind=ContainerKind.INIT), make_container("app"))

    outcome = place_on_node(request, make_node(devices=make_devices(1)), policies=BINPACK)

    assert given(outcome) == {"init": ["card-0"], "app": ["card-0"]}


def test_a_node_without_devices_lacks_its_registration():
    outcome = place_on_node(make_request(), make_node(devices=()), policies=BINPACK)
    (found,) = outcome.shortfalls

    assert found.resource is Resource.REGISTRATION


def test_cordoned_devices_are_left_alone():
    node = make_node(devices=make_devices(2), cordoned=["card-0"])

    assert given(place_on_node(make_request(), node, policies=BINPACK)) == {"main": ["card-1"]}


def nodes_of_load(*loads_mib):
    return [make_node(f"node-{n}", usages=[used("card", load)]) for n, load in enumerate(loads_mib)]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        pytest.param(BINPACK, ["node-1", "node-2", "node-0"], id="binpack ranks the fullest first"),
        pytest.param(SPREAD, ["node-0", "node-2", "node-1"], id="spread ranks the emptiest first"),
    ],
)
def test_nodes_are_ranked_by_policy(policies, expected):
    outcome = place(make_request(), nodes_of_load(1_000, 30_000, 20_000, 40_000), policies=policies)

    assert isinstance(outcome, Placement)
    assert [found.node_name for found in outcome.ranked] == expected
    assert outcome.best.node_name == expected[0]
    assert set(outcome.refusals) == {"node-3"}


def test_equal_nodes_are_ranked_by_name_whatever_their_order():
    nodes = nodes_of_load(0, 0, 0)

    forward = place(make_request(), nodes, policies=BINPACK)
    backward = place(make_request(), reversed(nodes), policies=BINPACK)

    assert forward == backward
    assert forward.best.node_name == "node-0"


def with_host(node, *, cpu_milli, memory_mib=64_000):
    return replace(
        node,
        host_free=HostAmount(cpu_milli=cpu_milli, memory_mib=memory_mib),
        host_capacity=HostAmount(cpu_milli=64_000, memory_mib=64_000),
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("binpack", "node-1", id="binpack takes the fuller host"),
        pytest.param("spread", "node-2", id="spread takes the emptier host"),
        pytest.param("numa", "node-1", id="numa takes the fuller host"),
        pytest.param("numa,spread", "node-2", id="numa and then spread takes the emptier host"),
        pytest.param("binpack,fragmentation", "node-0", id="fragmentation weighs the host itself"),
    ],
)
def test_processors_and_memory_decide_between_nodes_whose_cards_are_alike(policy, expected):
    """To the measure the first two are alike: with no card free, memory is of no use to anybody."""
    words = tuple(PolicyName(word) for word in policy.split(","))
    full = DeviceUsage(device=make_device(), slots_used=9, memory_used_mib=39_000)
    nodes = [
        with_host(make_node("node-0", usages=[full]), cpu_milli=30_000),
        with_host(make_node("node-1", usages=[full]), cpu_milli=30_000, memory_mib=10_000),
        with_host(make_node("node-2", usages=[full]), cpu_milli=50_000),
    ]
    request = make_request(host=HostAmount(cpu_milli=1_000, memory_mib=1_000))

    outcome = place(request, nodes, policies=Policies(node=words, device=words))

    assert outcome.best.node_name == expected


@pytest.mark.parametrize(
    ("policies", "expected"), [(BINPACK, "node-1"), (SPREAD, "node-0")], ids=["binpack", "spread"]
)
def test_processors_and_memory_do_not_outrank_the_cards(policies, expected):
    emptier, fuller = nodes_of_load(1_000, 2_000)
    nodes = [with_host(emptier, cpu_milli=1_000), with_host(fuller, cpu_milli=64_000)]

    assert place(make_request(), nodes, policies=policies).best.node_name == expected


@pytest.mark.parametrize(
    ("policy", "weights", "node_name"),
    [
        pytest.param("binpack", LoadWeights(), "cards", id="the fuller cards by default"),
        pytest.param("binpack", LoadWeights(cpu=2), "cpu", id="the fuller host where it counts"),
        pytest.param(
            "spread", LoadWeights(cpu=2, host_memory=2), "cards", id="the emptier one likewise"
        ),
        pytest.param("binpack", LoadWeights(host_memory=2), "memory", id="by main memory"),
        pytest.param("binpack", LoadWeights(slots=0, memory=0, cores=0, cpu=1), "cpu", id="alone"),
    ],
)
def test_pods_may_have_cpu_and_main_memory_weighed_together_with_cards(policy, weights, node_name):
    half = DeviceUsage(device=make_device(), slots_used=1, memory_used_mib=20_000)
    nodes = [
        with_host(make_node("cards", usages=[half]), cpu_milli=64_000),
        with_host(make_node("cpu"), cpu_milli=8_000),
        with_host(make_node("memory"), cpu_milli=64_000, memory_mib=8_000),
    ]
    request = make_request(node_weights=weights, node_policies=(PolicyName(policy),))

    assert place(request, nodes, policies=Policies()).best.node_name == node_name


def test_a_host_of_which_nothing_is_known_counts_as_idle():
    nodes = [make_node("node-0"), with_host(make_node("node-1"), cpu_milli=32_000)]

    assert place(make_request(), nodes, policies=BINPACK).best.node_name == "node-1"


def test_a_pod_that_fits_nowhere_is_told_what_each_node_lacks():
    outcome = place(make_request(), nodes_of_load(40_000, 39_001), policies=BINPACK)

    assert isinstance(outcome, Unplaceable)
    assert set(outcome.refusals) == {"node-0", "node-1"}


def test_the_search_is_bounded():
    """Sixteen cards with room for seven of eight pairs: too many choices to try them all."""
    pairs = [container(f"c{n}", 10_000, device_count=2) for n in range(9)]
    node = make_node(devices=make_devices(16, memory_mib=10_000))

    outcome = place_on_node(make_request(*pairs), node, policies=BINPACK)

    assert isinstance(outcome, Refusal)
    assert outcome.shortfalls[0].resource is Resource.DEVICE_COUNT
