import pytest

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import DeviceSelection
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.place import place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import AlikeRefusal, Kind, Refusal, StatesRefusal, card_reasons
from tests.sched.builders import make_container, make_device, make_node, make_request


def used(name, used_mib, *, index=0, **overrides):
    device = make_device(name, device_index=index, **overrides)
    return DeviceUsage(device=device, slots_used=1, memory_used_mib=used_mib)


@pytest.mark.parametrize(
    ("request_", "usages", "expected"),
    [
        pytest.param(make_request(), [used("a", 40_000)], False, id="a full card may become free"),
        pytest.param(
            make_request(make_container(memory=MemoryMib(mib=40_001))),
            [used("a", 0)],
            True,
            id="a card that is too small never will do",
        ),
        pytest.param(
            make_request(selection=DeviceSelection(use_models=("T4",))),
            [used("a", 0)],
            True,
            id="another model stays another model",
        ),
        pytest.param(
            make_request(),
            [used("a", 0, is_healthy=False)],
            False,
            id="an ill card may become healthy",
        ),
        pytest.param(
            make_request(make_container(device_count=2)),
            [used("a", 0)],
            True,
            id="a node has too few cards for ever",
        ),
        pytest.param(make_request(), [], True, id="a node without cards has nothing to wait for"),
    ],
)
def test_whether_waiting_helps(request_, usages, expected):
    refusal = place_on_node(request_, make_node(usages=usages), policies=Policies())

    assert refusal.is_hopeless is expected


def lack(resource, *, requested=0, used=0, capacity=0, card="a"):
    return Shortfall(
        resource=resource, requested=requested, used=used, capacity=capacity, device_uuid=card
    )


FULL = lack(Resource.MEMORY_MIB, requested=2, used=9, capacity=10)
SMALL = lack(Resource.MEMORY_MIB, requested=20, capacity=10)
NO_CORES = lack(Resource.CORE_PERCENT, requested=30, used=90, capacity=100)
BUSY = lack(Resource.EXCLUSIVITY, requested=100, used=1)
ILL = lack(Resource.HEALTH)


@pytest.mark.parametrize(
    ("shortfalls", "expected"),
    [
        pytest.param((FULL, NO_CORES), [Kind.CORES, Kind.MEMORY], id="each amount counts"),
        pytest.param((FULL, BUSY, NO_CORES), [Kind.IN_USE], id="a card must be free first"),
        pytest.param((BUSY, SMALL), [Kind.SIZE], id="a card must be large enough before"),
        pytest.param((SMALL, BUSY, ILL), [Kind.HEALTH], id="what a card is comes before all"),
    ],
)
def test_a_card_counts_under_what_must_change_first(shortfalls, expected):
    assert sorted(Refusal(shortfalls).counts) == expected


def test_the_nearest_card_is_remembered():
    near = lack(Resource.MEMORY_MIB, requested=2, used=9, capacity=10, card="b")
    far = lack(Resource.MEMORY_MIB, requested=2, used=10, capacity=10)

    counted = Refusal((far, near)).counts[Kind.MEMORY]

    assert counted.card_count == 2
    assert counted.nearest is near


def test_refusals_are_equal_when_their_shortfalls_are():
    assert Refusal((ILL,)) == Refusal((ILL,))
    assert hash(Refusal((ILL,))) == hash(Refusal((ILL,)))
    assert Refusal((ILL,)) != Refusal((BUSY,))
    assert "HEALTH" in repr(Refusal((ILL,)))


def test_nodes_with_cards_in_the_same_states_say_the_same_each_of_its_own_devices():
    request = make_request(make_container(device_count=2))
    node, other = (
        make_node(usages=[used(f"{name}-{n}", 40_000 - 500 * n) for n in range(3)])
        for name in ("a", "b")
    )
    plain, others = (place_on_node(request, n, policies=Policies()) for n in (node, other))
    cards = [
        card_reasons([s for s in plain.shortfalls if s.device_uuid == f"a-{n}"]) for n in range(3)
    ]
    states = StatesRefusal(cards, 2)

    refusal = AlikeRefusal(states, lambda: others)

    assert refusal.counts == plain.counts
    assert refusal.is_hopeless is plain.is_hopeless
    assert (refusal.card_count, refusal.needed_count, refusal.fitting_count) == (3, 2, 1)
    assert refusal.alike is states
    assert refusal == others != plain
    assert plain.alike is plain


def test_a_node_without_cards_is_refused_as_one_that_registers_none():
    refusal = StatesRefusal([], 1)

    assert refusal == place_on_node(make_request(), make_node(usages=[]), policies=Policies())
    assert not refusal.is_registered
    assert refusal.is_hopeless
