"""What holds for all pods and nodes; small enough that brute force can be asked as well."""

from collections import Counter
from dataclasses import replace
from itertools import chain, combinations, product

from hypothesis import given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.node import NO_HOST, HostAmount
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import ContainerKind, DeviceSelection, PolicyName
from hamid.model.shortfall import Resource
from hamid.sched.placement.fit import share_on
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import (
    NodePlacement,
    Placement,
    place,
    place_on_node,
    with_allocation,
)
from hamid.sched.placement.policy import LOAD_ORDERINGS, Policies
from hamid.sched.placement.rows import Placer
from hamid.sched.placement.typical import Arrivals, shapes_of
from tests.sched.builders import by_name, make_container, make_device, make_node, make_request

CARD_MIB = 8
MEMORY = st.one_of(
    st.integers(1, CARD_MIB).map(lambda mib: MemoryMib(mib=mib)),
    st.sampled_from([50, 100]).map(lambda percent: MemoryPercent(percent=percent)),
)


@st.composite
def usages(draw, index):
    device = make_device(
        f"card-{index}",
        device_index=index,
        memory_mib=draw(st.sampled_from([CARD_MIB // 2, CARD_MIB])),
        slot_count=draw(st.integers(1, 3)),
        is_healthy=draw(st.integers(0, 9)) > 0,
    )
    slots = draw(st.integers(0, device.slot_count))
    if not slots:
        return DeviceUsage(device=device)
    cores = draw(st.sampled_from([0, 30, 60, 100]))
    return DeviceUsage(
        device=device,
        slots_used=slots,
        memory_used_mib=draw(st.integers(0, device.memory_mib)),
        core_used_percent=cores,
        exclusive_count=int(cores == 100 and slots == 1),
    )


@st.composite
def nodes(draw, name="node-a", max_devices=3):
    count = draw(st.integers(0, max_devices))
    return make_node(name, usages=[draw(usages(index)) for index in range(count)])


@st.composite
def containers(draw, index):
    return make_container(
        f"c{index}",
        kind=draw(st.sampled_from(ContainerKind)),
        device_count=draw(st.integers(1, 2)),
        memory=draw(MEMORY),
        core_percent=draw(st.sampled_from([0, 0, 30, 60, 100])),
    )


@st.composite
def requests(draw, max_containers=3):
    found = [draw(containers(index)) for index in range(draw(st.integers(1, max_containers)))]
    found.sort(key=lambda c: c.kind is ContainerKind.APP)  # init containers come first in a spec
    return make_request(*found)


def chains(names):
    return st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True).map(tuple)


NO_MUTEX = [name for name in PolicyName if name is not PolicyName.MUTEX]
policies = st.builds(Policies, node=chains(NO_MUTEX), device=chains(NO_MUTEX))


def is_over(usage):
    device = usage.device
    return (
        usage.slots_used > device.slot_count
        or usage.memory_used_mib > device.memory_mib
        or usage.core_used_percent > device.core_percent
        or usage.exclusive_count > 1
    )


@given(requests(), nodes(), policies)
def test_what_is_placed_is_within_capacity_in_every_dimension(request_, node, policies_):
    outcome = place_on_node(request_, node, policies=policies_)
    if not isinstance(outcome, NodePlacement):
        return

    holds = outcome.allocation("uid-1").holds()

    for usage in node.usages:
        hold = holds.get(usage.device.device_uuid)
        if hold is None:
            continue
        assert not is_over(usage.with_hold(hold))
        assert usage.device.is_healthy
        assert not (hold.is_exclusive and usage.slots_used)
        assert not usage.exclusive_count
    for given_, asked in zip(outcome.containers, request_.requests, strict=True):
        assert given_.container_name == asked.container_name
        assert len({share.device_uuid for share in given_.shares}) == asked.device_count


@given(requests(), nodes(), policies)
def test_a_refusal_has_true_reasons(request_, node, policies_):
    """All that stands against one container, on all cards, wherever those before it are."""
    outcome = place_on_node(request_, node, policies=policies_)
    if isinstance(outcome, NodePlacement):
        return

    said = Counter(
        (s.device_uuid, s.resource, s.requested, s.used, s.capacity) for s in outcome.shortfalls
    )

    assert said
    assert said in list(dead_ends(request_, node))


@given(requests(max_containers=1), nodes(), policies)
def test_a_refusal_names_exactly_the_cards_that_do_not_do(request_, node, policies_):
    outcome = place_on_node(request_, node, policies=policies_)
    if isinstance(outcome, NodePlacement):
        return

    (container,) = request_.requests
    refused = {s.device_uuid for s in outcome.shortfalls} - {None}
    assert refused == {u.device.device_uuid for u in node.usages if not is_room(u, container, [])}
    assert outcome.card_count == len(node.usages)
    assert outcome.fitting_count == len(node.usages) - len(refused)


def dead_ends(request_, node):
    """What is to be said of each container that too few cards are left for."""
    if not node.usages:
        yield Counter([(None, Resource.REGISTRATION, 0, 0, 0)])
        return
    for depth, container in enumerate(request_.requests):
        before = replace(request_, requests=request_.requests[:depth])
        for choice in choices_of(before, node):
            if not is_valid(before, node, choice):
                continue
            beside = beside_of(container, zip(before.requests, choice, strict=True))
            lacking = [lacks(u, container, there(n, beside)) for n, u in enumerate(node.usages)]
            unfit = sum(map(bool, lacking))
            total = len(node.usages)
            if total - unfit < container.device_count:
                count = (None, Resource.DEVICE_COUNT, container.device_count, unfit, total)
                yield Counter([count, *chain.from_iterable(lacking)])


def lacks(usage, container, beside):
    """All that stands against the container on a card that these others of its pod have, too."""
    device = usage.device
    share = share_on(device, container)
    memory = usage.memory_used_mib + sum(share_on(device, o).memory_mib for o in beside)
    cores = usage.core_used_percent + sum(o.core_percent for o in beside)
    slots = usage.slots_used + len(beside)
    is_held = usage.exclusive_count or any(o.is_exclusive for o in beside)
    asked = container.core_percent
    found = (
        (not device.is_healthy, Resource.HEALTH, 0, 0, 0),
        (slots >= device.slot_count, Resource.SLOTS, 1, slots, device.slot_count),
        (
            memory + share.memory_mib > device.memory_mib,
            *(Resource.MEMORY_MIB, share.memory_mib, memory, device.memory_mib),
        ),
        (cores + max(asked, 1) > 100, Resource.CORE_PERCENT, asked, cores, 100),
        (is_held or (asked == 100 and slots), Resource.EXCLUSIVITY, asked, slots, 0),
    )
    return [(device.device_uuid, *said) for is_lacking, *said in found if is_lacking]


@given(requests(), nodes(), policies)
def test_a_pod_fits_exactly_if_any_choice_of_devices_fits(request_, node, policies_):
    outcome = place_on_node(request_, node, policies=policies_)

    assert isinstance(outcome, NodePlacement) is fits_somehow(request_, node)


@given(
    requests(max_containers=2),
    nodes(max_devices=4),
    st.lists(st.sampled_from([None, 0, 1]), min_size=4, max_size=4),
    st.tuples(*[st.sets(st.sampled_from([f"card-{n}" for n in range(4)]), max_size=2)] * 2),
    policies,
)
def test_bindings_cordons_and_avoided_cards_leave_exactly_the_choices_that_they_allow(
    drawn, node, numa_nodes, closed, policies_
):
    cordoned, avoided = closed
    usages = tuple(
        replace(usage, device=replace(usage.device, numa_node=numa))
        for usage, numa in zip(node.usages, numa_nodes, strict=False)
    )
    node = replace(node, usages=usages, cordoned=frozenset(cordoned))
    request_ = replace(
        drawn,
        is_numa_bound=True,
        selection=DeviceSelection(avoid_uuids=tuple(sorted(avoided))),
    )

    outcome = place_on_node(request_, node, policies=policies_)

    assert isinstance(outcome, NodePlacement) is any(
        is_valid(request_, node, choice) and all(is_allowed(node, each, avoided) for each in choice)
        for choice in choices_of(request_, node)
    )
    if not isinstance(outcome, NodePlacement) and node.usages:
        assert outcome.is_registered


def is_allowed(node, indices, avoided):
    """Whether the author and the operator let one container have these."""
    devices = [node.usages[index].device for index in indices]
    numa_nodes = {device.numa_node for device in devices}
    return not {device.device_uuid for device in devices} & (node.cordoned | avoided) and (
        len(devices) == 1 or (len(numa_nodes) == 1 and None not in numa_nodes)
    )


def fits_somehow(request_, node):
    return any(is_valid(request_, node, choice) for choice in choices_of(request_, node))


def choices_of(request_, node):
    """All cards that the containers could be given, whether they fit or not."""
    choices = [
        list(combinations(range(len(node.usages)), container.device_count))
        for container in request_.requests
    ]
    return product(*choices)


def is_valid(request_, node, choice):
    """Whether every container finds its place at the moment when it starts."""
    started = []
    for container, indices in zip(request_.requests, choice, strict=True):
        beside = beside_of(container, started)
        if not all(is_room(node.usages[n], container, there(n, beside)) for n in indices):
            return False
        started.append((container, indices))
    return True


def beside_of(container, started):
    """Those that still run when the container starts, and the cards of each."""
    return [
        (other, where)
        for other, where in started
        if other.kind is ContainerKind.SIDECAR
        or (other.kind is ContainerKind.APP and container.kind is not ContainerKind.INIT)
    ]


def there(index, beside):
    """Those of them that have this card."""
    return [other for other, where in beside if index in where]


def is_room(usage, container, beside):
    return not lacks(usage, container, beside)


@given(requests(), st.lists(nodes(), max_size=4), policies, st.randoms())
def test_the_order_of_nodes_does_not_matter(request_, drawn, policies_, random):
    named = [make_node(f"node-{n}", usages=node.usages) for n, node in enumerate(drawn)]
    shuffled = random.sample(named, len(named))

    assert place(request_, named, policies=policies_) == place(
        request_, shuffled, policies=policies_
    )


@given(requests(max_containers=1), nodes(), policies, st.randoms())
def test_the_order_of_devices_does_not_matter(request_, node, policies_, random):
    shuffled = make_node(usages=random.sample(node.usages, len(node.usages)))

    first = place_on_node(request_, node, policies=policies_)
    second = place_on_node(request_, shuffled, policies=policies_)

    if isinstance(first, NodePlacement):
        assert first == second
    else:
        assert set(first.shortfalls) == set(second.shortfalls)


@given(requests(), st.lists(nodes(), min_size=1, max_size=4), policies)
def test_the_best_node_is_the_best_by_policy(request_, drawn, policies_):
    named = [make_node(f"node-{n}", usages=node.usages) for n, node in enumerate(drawn)]
    outcome = place(request_, named, policies=policies_)
    if not isinstance(outcome, Placement):
        return

    loads = [found.load_ppm for found in outcome.ranked]
    costs = [found.cost for found in outcome.ranked]

    assert costs == sorted(costs)
    if policies_.node[0] in LOAD_ORDERINGS:
        assert loads == sorted(loads, reverse=policies_.node[0] is PolicyName.BINPACK)


def named(drawn):
    return [make_node(f"node-{n}", usages=node.usages) for n, node in enumerate(drawn)]


@given(requests(max_containers=2), st.lists(nodes(), max_size=3), policies)
def test_a_cluster_takes_a_pod_exactly_on_the_nodes_where_brute_force_finds_room(
    request_, drawn, policies_
):
    cluster = named(drawn)

    outcome = place(request_, cluster, policies=policies_)

    fitting = {node.node_name for node in cluster if fits_somehow(request_, node)}
    assert isinstance(outcome, Placement) is bool(fitting)
    assert outcome.refusals.keys() == {node.node_name for node in cluster} - fitting
    if isinstance(outcome, Placement):
        assert set(outcome.node_names) == fitting
        assert [found.node_name for found in outcome.ranked] == list(outcome.node_names)


HOSTS = st.sampled_from([None, *(HostAmount(cpu_milli=n, memory_mib=n) for n in (0, 3, 9))])
STEP = st.tuples(
    st.integers(0, 2),
    nodes(),
    HOSTS,
    requests(max_containers=2),
    st.sampled_from([NO_HOST, HostAmount(cpu_milli=2, memory_mib=1)]),
    st.one_of(st.none(), policies),
    st.integers(0, 12),
)


@given(st.lists(STEP, min_size=1, max_size=12))
def test_whatever_came_before_the_answer_is_that_of_one_who_just_looks(steps):
    """Same nodes, same request, same typical shapes: same answer, and a true one."""
    placer, arrivals = Placer(policies=Policies()), Arrivals()
    cluster = named([make_node(usages=[])] * 3)
    for step, (number, node, host, drawn, asked, by, count) in enumerate(steps):
        cluster[number] = replace(
            make_node(f"node-{number}", usages=node.usages, host_free=host),
            host_capacity=None if host is None else HostAmount(cpu_milli=10, memory_mib=10),
        )
        request_ = replace(drawn, host=asked)
        if by is not None:
            request_ = replace(request_, node_policies=by.node, device_policies=by.device)
        for again in range(count):
            for seen in (placer.arrivals, arrivals):
                seen.count(f"uid-{step}-{again}", shapes_of(request_))

        found = placer.place(request_, by_name(cluster))

        measure = Fragmentation(arrivals.typical)
        assert found == place(request_, cluster, policies=Policies(), measure=measure)
        assert found.refusals.keys() == {
            node.node_name for node in cluster if not fits_somehow(request_, node)
        }


@given(st.lists(nodes(), min_size=1, max_size=3), st.lists(requests(max_containers=2), max_size=8))
def test_a_cluster_that_is_filled_is_never_over_capacity(drawn, arriving):
    placer = Placer(policies=Policies())
    cluster = {node.node_name: node for node in named(drawn)}
    before = {name: [is_over(usage) for usage in node.usages] for name, node in cluster.items()}
    for number, request_ in enumerate(arriving):
        placer.arrivals.count(f"uid-{number}", shapes_of(request_))
        outcome = placer.place(request_, dict(cluster))
        if isinstance(outcome, Placement):
            node = cluster[outcome.best.node_name]
            allocation = outcome.best.allocation(f"uid-{number}")
            cluster[node.node_name] = with_allocation(node, allocation)

    after = {name: [is_over(usage) for usage in node.usages] for name, node in cluster.items()}

    assert after == before
