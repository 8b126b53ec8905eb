"""Policies among the devices of a node."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import ContainerKind, DeviceSelection, LoadWeights, PolicyName
from hamid.sched.placement.explain import node_sentence
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, place, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import Refusal
from hamid.sched.placement.search import MAX_TRIES, Search
from hamid.sched.placement.typical import Arrivals
from tests.sched.builders import make_container, make_device, make_devices, make_node, make_request

BINPACK, SPREAD = PolicyName.BINPACK, PolicyName.SPREAD
MUTEX, NUMA, TOPOLOGY = PolicyName.MUTEX, PolicyName.NUMA, PolicyName.TOPOLOGY_AWARE


def card(name, used_percent=0, numa_node=None, **overrides):
    device = make_device(f"card-{name}", numa_node=numa_node, **overrides)
    return DeviceUsage(
        device=device,
        slots_used=int(used_percent > 0),
        memory_used_mib=device.memory_mib * used_percent // 100,
    )


def asking(count=1, **overrides):
    return make_request(make_container(device_count=count), **overrides)


def outcome_of(request, *usages, device=(BINPACK,), links=()):
    node = make_node(usages=usages)
    if links:
        node = type(node)(node_name=node.node_name, usages=node.usages, links=links)
    return place_on_node(request, node, policies=Policies(node=(BINPACK,), device=device))


def chosen(request, *usages, **options):
    outcome = outcome_of(request, *usages, **options)
    assert isinstance(outcome, NodePlacement), node_sentence(request, outcome)
    return [s.device_uuid.removeprefix("card-") for s in outcome.containers[0].shares]


# Project-HAMi/HAMi#1806: which card goes first is asked by policy, and NUMA only comes after it.
TWO_NUMA_NODES = (card("a", 90, 0), card("b", 70, 0), card("c", 30, 1), card("d", 10, 1))


@pytest.mark.parametrize(
    ("count", "policies", "is_numa_bound", "cards"),
    [
        pytest.param(1, (SPREAD,), False, ["d"], id="one card, spread"),
        pytest.param(1, (BINPACK,), False, ["a"], id="one card, binpack"),
        pytest.param(2, (SPREAD,), False, ["d", "c"], id="two cards, spread"),
        pytest.param(2, (BINPACK,), False, ["a", "b"], id="two cards, binpack"),
        pytest.param(3, (SPREAD, NUMA), False, ["d", "c", "b"], id="numa second outranks nothing"),
        pytest.param(2, (SPREAD,), True, ["d", "c"], id="bound to one numa node, spread"),
        pytest.param(2, (BINPACK,), True, ["a", "b"], id="bound to one numa node, binpack"),
    ],
)
def test_numa_never_outranks_the_asked_order(count, policies, is_numa_bound, cards):
    request = asking(count, is_numa_bound=is_numa_bound)

    assert chosen(request, *TWO_NUMA_NODES, device=policies) == cards


def test_a_card_without_a_numa_node_is_no_obstacle_and_no_partner():
    usages = (card("a", 50), card("b", 0, 0), card("c", 0, 0))

    assert chosen(asking(1, is_numa_bound=True), *usages) == ["a"]
    assert chosen(asking(2, is_numa_bound=True), *usages) == ["b", "c"]


def test_numa_asked_first_takes_cards_of_one_node_though_fuller_ones_are_elsewhere():
    usages = (card("a", 50, 0), card("b", 0, 1), card("c", 10, 1))

    assert chosen(asking(2), *usages, device=(NUMA, BINPACK)) == ["c", "b"]
    assert chosen(asking(2), *usages, device=(BINPACK, NUMA)) == ["a", "c"]


def test_bound_to_one_numa_node_the_refusal_says_so():
    request = asking(2, is_numa_bound=True)

    outcome = outcome_of(request, card("a", 0, 0), card("b", 0, 1))

    assert isinstance(outcome, Refusal)
    assert not outcome.is_hopeless or outcome.is_registered
    assert "too few others on the same NUMA node" in node_sentence(request, outcome)


def test_mutex_takes_cards_that_nobody_uses():
    assert chosen(asking(), card("a", 10), card("b"), device=(MUTEX,)) == ["b"]


def test_mutex_refuses_where_all_cards_are_in_use():
    request = asking()

    outcome = outcome_of(request, card("a", 10), device=(MUTEX, BINPACK))

    assert isinstance(outcome, Refusal)
    assert "in use" in node_sentence(request, outcome)


ALONE = Policies(node=(MUTEX,), device=(BINPACK,))


@pytest.mark.parametrize("count", [1, 2])
def test_mutex_for_nodes_takes_one_on_which_nobody_else_has_cards(count):
    used, idle = (
        make_node("used", usages=[card("a", 10), card("b")]),
        make_node("idle", usages=[card("c"), card("d")]),
    )

    found = place(asking(count), [used, idle], policies=ALONE)

    assert found.node_names == ("idle",)
    assert found.best.cost[0] == 0


def test_mutex_for_nodes_says_that_a_node_is_in_use_and_what_its_cards_lack_besides():
    request = asking(selection=DeviceSelection(avoid_uuids=("card-c",)))
    node = make_node(usages=[card("a", 10), card("b"), card("c")])

    refusal = place_on_node(request, node, policies=ALONE)

    assert node_sentence(request, refusal) == (
        "no card of 3 fits: 2 are on a node that others use (one to itself is asked), "
        "1 is excluded by UUID (card-c avoided)"
    )
    assert not refusal.is_hopeless


def test_mutex_for_nodes_lets_the_containers_of_a_pod_share_one():
    request = make_request(make_container("a"), make_container("b"))

    assert isinstance(place_on_node(request, make_node(), policies=ALONE), NodePlacement)


def test_topology_aware_takes_the_best_linked_cards_and_alone_the_worst():
    usages = (card("a"), card("b"), card("c"))
    links = ((0, 1, 1), (1, 0, 9), (1, 9, 0))

    assert chosen(asking(2), *usages, device=(TOPOLOGY,), links=links) == ["b", "c"]
    assert chosen(asking(1), *usages, device=(TOPOLOGY,), links=links) == ["a"]


@pytest.mark.parametrize(
    ("count", "cards"),
    [
        pytest.param(2, ["c", "d"], id="two cards are the best linked"),
        pytest.param(1, ["b"], id="one card alone is the worst linked"),
    ],
)
def test_by_default_links_decide_among_cards_that_are_equal_otherwise(count, cards):
    links = ((0, 1, 2, 1), (1, 0, 1, 1), (2, 1, 0, 9), (1, 1, 9, 0))
    node = replace(make_node(usages=[card(name) for name in "abcd"]), links=links)

    found = place_on_node(asking(count), node, policies=Policies())

    assert [s.device_uuid for s in found.containers[0].shares] == [f"card-{c}" for c in cards]


def test_topology_second_only_breaks_ties():
    usages = (card("a", 50), card("b", 50), card("c"), card("d"))
    links = ((0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 9), (1, 1, 9, 0))

    assert chosen(asking(2), *usages, device=(BINPACK, TOPOLOGY), links=links) == ["a", "b"]


def test_topology_counts_among_nodes_too():
    poor, rich = (
        type(node)(node_name=node.node_name, usages=node.usages, links=links)
        for node, links in (
            (make_node("a-poor", usages=(card("a"), card("b"), card("c"))), ((0, 1, 2),) * 3),
            (make_node("rich", usages=(card("d"), card("e"), card("f"))), ((0, 9, 1),) * 3),
        )
    )
    policies = Policies(node=(TOPOLOGY,), device=(BINPACK,))

    found = place(asking(2), [poor, rich], policies=policies)

    assert found.best.node_name == "rich"


def test_an_index_picks_the_card():
    usages = (card("a"), card("b", device_index=1), card("c", device_index=2))
    request = asking(selection=DeviceSelection(use_indices=(2,)))

    assert chosen(request, *usages) == ["c"]


def test_an_index_that_is_not_there_is_said():
    request = asking(selection=DeviceSelection(use_indices=(7,)))

    outcome = outcome_of(request, card("a"))

    assert outcome.is_hopeless
    assert "another index (7 asked)" in node_sentence(request, outcome)


@pytest.mark.parametrize(
    ("weights", "chosen_card"),
    [(LoadWeights(), "b"), (LoadWeights(slots=5), "a"), (LoadWeights(slots=0), "b")],
)
def test_weights_say_what_makes_a_card_full(weights, chosen_card):
    slots = DeviceUsage(device=make_device("card-a"), slots_used=4)
    memory = DeviceUsage(device=make_device("card-b"), slots_used=1, memory_used_mib=20_000)
    container = make_container(memory=MemoryMib(mib=400))

    request = make_request(container, load_weights=weights)

    assert chosen(request, slots, memory) == [chosen_card]


def test_within_a_bound_of_memory_the_smaller_devices_come_first():
    devices = (
        make_device("large", memory_mib=24_000),
        make_device("small", device_index=1, memory_mib=16_000),
    )
    request = make_request(make_container(memory=MemoryPercent(percent=50)))

    def found(most_memory_mib):
        outcome = place_on_node(
            request,
            make_node(devices=devices),
            policies=Policies(node=(BINPACK,), device=(SPREAD,)),
            most_memory_mib=most_memory_mib,
        )
        if isinstance(outcome, Refusal):
            return None
        return outcome.containers[0].shares[0].device_uuid

    assert found(None) == "large"
    assert found(12_000) == "small"
    assert found(7_999) is None


@pytest.mark.parametrize("device", [(BINPACK,), (NUMA,), (TOPOLOGY,)], ids=str)
def test_cards_of_one_numa_node_are_found_among_many(device):
    """As of MIG instances: the best cards lie scattered over all NUMA nodes."""
    usages = [card(f"{n:02}", 10 + n // 4, n % 4, device_index=n) for n in range(40)]
    request = asking(9, is_numa_bound=True)

    cards = chosen(request, *usages, device=device)

    assert len({int(name) % 4 for name in cards}) == 1


def test_bound_to_a_numa_node_more_cards_than_are_compared_are_found_too():
    usages = [card(f"{n:02}", 0, n % 2, device_index=n) for n in range(40)]

    cards = chosen(asking(18, is_numa_bound=True), *usages)

    assert [int(name) % 2 for name in cards] == [0] * 18


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(2, "nvlink", id="two cards go where links are good"),
        pytest.param(1, "pcie", id="one card alone leaves good links to others"),
    ],
)
def test_nodes_are_compared_by_their_links_and_not_by_what_is_best_on_each(count, expected):
    usages = (card("a"), card("b"), card("c"))
    nodes = [
        replace(make_node(name, usages=usages), links=((score,) * 3,) * 3)
        for name, score in (("nvlink", 100), ("pcie", 10))
    ]
    policies = Policies(node=(TOPOLOGY, BINPACK), device=(TOPOLOGY,))

    found = place(asking(count), nodes, policies=policies)

    assert found.best.node_name == expected


class Plain(Search):
    """Tries everything there is."""

    def _state(self, _depth, _views):
        return None

    def _has_room_for_row(self, _depth, _views):
        return True


class Counting(Search):
    """Counts how often cards are looked at."""

    looks = 0

    def _candidates(self, depth, views):
        self.looks += 1
        return super()._candidates(depth, views)


def searched(kind, request, node, policies=(BINPACK,), tries=MAX_TRIES, **options):
    measure = Fragmentation(Arrivals().typical)
    search = kind(
        request=request, node=node, policies=Policies(device=policies), measure=measure, **options
    )
    search._tries_left = tries
    return search, search.run()


@st.composite
def pods_of_alike(draw):
    """A few containers, each several times over."""
    found = []
    for group in range(draw(st.integers(1, 3))):
        container = make_container(
            kind=draw(st.sampled_from(ContainerKind)),
            device_count=draw(st.integers(1, 2)),
            memory=draw(st.sampled_from([MemoryMib(mib=3), MemoryPercent(percent=40)])),
            core_percent=draw(st.sampled_from([0, 30, 100])),
        )
        count = draw(st.integers(1, 3))
        found += [replace(container, container_name=f"c{group}-{n}") for n in range(count)]
    found.sort(key=lambda c: c.kind is ContainerKind.APP)
    return make_request(*found)


@st.composite
def small_nodes(draw):
    count = draw(st.integers(1, 3))
    return make_node(
        devices=[
            make_device(
                f"card-{n}",
                device_index=n,
                numa_node=n % 2,
                memory_mib=draw(st.sampled_from([6, 10])),
                slot_count=draw(st.integers(1, 4)),
            )
            for n in range(count)
        ]
    )


@given(
    pods_of_alike(),
    small_nodes(),
    st.sampled_from([(BINPACK,), (SPREAD,), (NUMA, SPREAD), (MUTEX,), (PolicyName.FRAGMENTATION,)]),
    st.sampled_from([None, 12]),
)
def test_what_is_left_out_of_the_search_would_have_led_to_nothing(
    request_, node, policies, most_memory_mib
):
    (search, shares), (plain, expected) = (
        searched(kind, request_, node, policies, tries, most_memory_mib=most_memory_mib)
        for kind, tries in ((Search, MAX_TRIES), (Plain, 20_000))
    )
    assume(plain._tries_left > 0 and search._tries_left > 0)

    assert shares == expected
    if all(container.device_count == 1 for container in request_.requests):
        assert search.refusal == plain.refusal


def test_more_containers_alike_than_there_is_room_for_are_not_tried_in_every_order():
    request = make_request(*(make_container(f"c{n}") for n in range(100)))
    node = make_node(devices=make_devices(8))

    search, shares = searched(Counting, request, node)

    assert shares is None
    assert search.looks == 81
    assert search.refusal == searched(Plain, request, node)[0].refusal


def test_choices_that_come_to_the_same_do_not_use_up_the_tries():
    """The choices for the second container have nothing to do with why the third one is refused."""
    usages = [
        DeviceUsage(device=device, memory_used_mib=10_000 if n < 2 else 25_000, slots_used=1)
        for n, device in enumerate(make_devices(8))
    ]
    request = make_request(
        make_container("a", device_count=2, memory=MemoryMib(mib=12_000)),
        make_container("b", device_count=4, memory=MemoryMib(mib=1_000)),
        make_container("c", device_count=2, memory=MemoryMib(mib=29_000)),
    )

    _, shares = searched(Search, request, make_node(usages=usages), (SPREAD,))

    assert shares is not None
    assert {share.device_uuid for share in shares[2]} == {"card-0", "card-1"}


def four_of_two(large_at):
    """Four containers with two cards each, of which one fits on two of sixteen cards alone."""
    sizes = [9_000, 10_000, 11_000]
    sizes.insert(large_at, 36_000)
    return make_request(
        *(
            make_container(f"c{n}", device_count=2, memory=MemoryMib(mib=mib))
            for n, mib in enumerate(sizes)
        )
    )


@pytest.mark.parametrize("policy", [SPREAD, BINPACK, PolicyName.FRAGMENTATION])
@pytest.mark.parametrize("large_at", range(4))
def test_a_pod_that_fits_on_a_large_node_is_not_refused_whatever_is_preferred(policy, large_at):
    """No two cards have as much free, so that no choice is like another."""
    usages = [
        DeviceUsage(
            device=device,
            memory_used_mib=0 if n in (5, 11) else 15_000 + n * 800,
            core_used_percent=n,
            slots_used=1 + n % 3,
        )
        for n, device in enumerate(make_devices(16))
    ]
    node = make_node(usages=usages)

    _, shares = searched(Search, four_of_two(large_at), node, (policy,))

    assert shares is not None
    assert {share.device_uuid for share in shares[large_at]} == {"card-5", "card-11"}


@given(
    pods_of_alike(), small_nodes(), st.sampled_from([None, 12]), st.sampled_from([SPREAD, MUTEX])
)
def test_what_is_packed_when_the_tries_are_used_up_is_one_of_the_choices(
    request_, node, most_memory_mib, policy
):
    options = {"policies": (policy,), "most_memory_mib": most_memory_mib}
    _, shares = searched(Search, request_, node, tries=1, **options)
    assume(shares is not None)

    class Given(Plain):
        """Finds what it is given, and nothing else."""

        def _sets(self, depth, candidates, _views):
            found = {candidate.share for candidate in candidates}
            return [shares[depth]] if found.issuperset(shares[depth]) else []

    assert searched(Given, request_, node, **options)[1] == shares


def test_sets_of_cards_are_ordered_once_for_init_containers_that_find_the_same():
    class Ordering(Search):
        costs = 0

        def _set_cost(self, found):
            self.costs += 1
            return super()._set_cost(found)

    containers = (
        make_container(f"c{n}", kind=ContainerKind.INIT, device_count=2) for n in range(50)
    )
    request, node = make_request(*containers), make_node(devices=make_devices(8))

    search, shares = searched(Ordering, request, node, (TOPOLOGY,))

    assert shares is not None
    assert search.costs == 2 * 28
