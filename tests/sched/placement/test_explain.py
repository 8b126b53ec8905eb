import pytest

from hamid.model.device import DeviceMode, DeviceUsage
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.request import DeviceSelection
from hamid.sched.placement.explain import (
    card_reasons,
    card_sentence,
    cluster_sentence,
    node_sentence,
    node_sentences,
)
from hamid.sched.placement.place import place, place_on_node
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.refusal import Refusal
from tests.sched.builders import make_container, make_device, make_node, make_request, whole_card

T4 = "NVIDIA-Tesla T4"


def asking(mib=3_000, **overrides):
    container = {
        "core_percent": overrides.pop("core_percent", 0),
        "device_count": overrides.pop("count", 1),
    }
    return make_request(make_container(memory=MemoryMib(mib=mib), **container), **overrides)


def card(index, **overrides):
    usage = {
        key: overrides.pop(key)
        for key in ("memory_used_mib", "slots_used", "core_used_percent", "exclusive_count")
        if key in overrides
    }
    return DeviceUsage(
        device=make_device(f"card-{index}", device_index=index, **overrides), **usage
    )


def cards(count, **overrides):
    return [card(n, **overrides) for n in range(count)]


def refusal_of(request, *usages, cordoned=()):
    node = make_node(usages=usages, cordoned=cordoned)
    refusal = place_on_node(request, node, policies=Policies())
    assert isinstance(refusal, Refusal)
    return refusal


@pytest.mark.parametrize(
    ("request_", "usages", "expected"),
    [
        pytest.param(
            asking(selection=DeviceSelection(use_models=("A100",))),
            [
                *cards(4, memory_used_mib=39_000),
                card(4, memory_used_mib=38_800),
                *[card(n, model=T4) for n in (5, 6, 7)],
            ],
            "no card of 8 fits: 5 lack memory (need 3000 MiB, most free 1200 MiB), 3 are of another model (A100 asked)",
            id="memory and model",
        ),
        pytest.param(
            asking(core_percent=30),
            [
                card(0, core_used_percent=80, slots_used=1),
                card(1, core_used_percent=90, slots_used=10),
            ],
            "no card of 2 fits: 2 lack cores (need 30 %, most free 20 %), 1 has no free slot (10 of 10 taken)",
            id="cores and slots",
        ),
        pytest.param(
            asking(50_000),
            [card(0), card(1, memory_used_mib=10)],
            "no card of 2 fits: 2 are too small (need 50000 MiB, largest has 40000 MiB)",
            id="larger than any card",
        ),
        pytest.param(
            make_request(whole_card()),
            [card(0, slots_used=1)],
            "no card of 1 fits: 1 is in use (a whole card is asked)",
            id="a whole card is asked",
        ),
        pytest.param(
            asking(),
            [
                card(
                    0,
                    slots_used=1,
                    exclusive_count=1,
                    core_used_percent=100,
                    memory_used_mib=40_000,
                )
            ],
            "no card of 1 fits: 1 is held whole by another container",
            id="a card that is held whole lacks nothing else",
        ),
        pytest.param(
            asking(),
            [card(0, core_used_percent=100, slots_used=2)],
            "no card of 1 fits: 1 has all cores promised",
            id="promised cores",
        ),
        pytest.param(
            asking(count=4),
            [*cards(3), card(3, is_healthy=False)],
            "too few cards, 4 needed (3 of 4 fit): 1 is unhealthy",
            id="too few cards",
        ),
        pytest.param(
            asking(count=2),
            [card(0)],
            "too few cards, 2 different ones needed (1 of 1 fits)",
            id="a node with too few cards",
        ),
        pytest.param(
            asking(selection=DeviceSelection(use_uuids=("x", "y", "z", "q"), avoid_uuids=("v",))),
            [card(0)],
            "no card of 1 fits: 1 is excluded by UUID (x or y or z or 1 more asked, v avoided)",
            id="uuids",
        ),
        pytest.param(
            asking(allowed_modes=("mig",)),
            [card(0, mode=DeviceMode.HAMI_CORE)],
            "no card of 1 fits: 1 is in another mode (mig asked)",
            id="mode",
        ),
        pytest.param(asking(), [], "the node registers no card", id="no card"),
    ],
)
def test_a_node_says_what_it_lacks(request_, usages, expected):
    assert node_sentence(request_, refusal_of(request_, *usages)) == expected


def test_a_cordoned_card_is_said_to_be_cordoned():
    refusal = refusal_of(asking(), card(0), cordoned=["card-0"])

    assert node_sentence(asking(), refusal) == "no card of 1 fits: 1 is cordoned"


def cluster(request):
    nodes = [
        make_node("full-1", usages=cards(8, memory_used_mib=39_000)),
        make_node("full-2", usages=cards(8, memory_used_mib=38_000)),
        make_node("ill", usages=cards(2, is_healthy=False)),
        make_node("silent", usages=[]),
    ]
    return place(request, nodes, policies=Policies()).refusals


def test_nodes_with_the_same_reasons_share_one_sentence():
    """kube-scheduler merges equal texts, so that an event stays readable at 1,000 nodes."""
    sentences = node_sentences(asking(), cluster(asking()))

    assert sentences == {
        "full-1": "no card of 16 on 2 nodes fits: 16 lack memory (need 3000 MiB, most free 2000 MiB)",
        "full-2": "no card of 16 on 2 nodes fits: 16 lack memory (need 3000 MiB, most free 2000 MiB)",
        "ill": "no card of 2 fits: 2 are unhealthy",
        "silent": "the node registers no card",
    }


def test_the_cluster_says_per_reason_how_many_cards_on_how_many_nodes():
    assert cluster_sentence(asking(), cluster(asking())) == (
        "no card of 18 on 3 nodes fits: 16 on 2 nodes lack memory (need 3000 MiB, most free 2000 MiB), "
        "2 on 1 node are unhealthy; 1 node without registered cards"
    )


def test_too_few_cards_on_several_nodes():
    request = asking(count=4)
    refusals = {"a": refusal_of(request, *cards(2)), "b": refusal_of(request, *cards(1))}

    assert cluster_sentence(request, refusals) == (
        "too few cards on any node, 4 different ones needed (3 on 2 nodes, at most 2 fit on one)"
    )


def test_too_few_cards_of_which_none_fits():
    request = asking(count=4)
    full = refusal_of(request, *cards(2, memory_used_mib=39_000))

    assert cluster_sentence(request, {"a": full, "b": full}) == (
        "too few cards on any node, 4 different ones needed (4 on 2 nodes): "
        "4 lack memory (need 3000 MiB, most free 1000 MiB)"
    )


def test_a_cluster_without_cards_says_so():
    look = "see where hamid's DaemonSet runs (nodes need its label), and its log"

    one = cluster_sentence(asking(), {"a": refusal_of(asking())})
    both = cluster_sentence(asking(), dict.fromkeys("ab", refusal_of(asking())))

    assert one == f"the node registers no card: {look}"
    assert both == f"none of 2 nodes registers a card: {look}"
    assert cluster_sentence(asking(), {}) == "no node was offered"


def test_reasons_have_cards_nodes_amounts_and_units():
    request = asking(selection=DeviceSelection(use_models=("A100",)))
    nodes = [
        make_node("a", usages=cards(2, memory_used_mib=39_000)),
        make_node("b", usages=[card(0, memory_used_mib=38_800), card(1, model=T4)]),
    ]
    refusals = place(request, nodes, policies=Policies()).refusals

    memory, model = card_reasons(request, refusals)

    assert (memory.kind, memory.card_count, memory.node_count) == ("memory", 3, 2)
    assert (memory.asked, memory.free, memory.lacking, memory.unit) == (3_000, 1_200, 1_800, "MiB")
    assert memory.text == "3 cards on 2 nodes lack memory (need 3000 MiB, most free 1200 MiB)"
    assert (model.text, model.lacking, model.unit) == (
        "1 card on 1 node is of another model (A100 asked)",
        0,
        "",
    )


def test_of_one_card_alone_it_is_not_said_that_it_is_the_best_of_several():
    request = asking(50_000, core_percent=60)
    (node,) = [refusal_of(request, card(0, core_used_percent=70, slots_used=1))]
    said = [card_sentence(request, s) for s in node.shortfalls if s.device_uuid]

    assert said == [
        "is too small (need 50000 MiB, has 40000 MiB)",
        "lacks cores (need 60 %, free 30 %)",
    ]


def test_whichever_node_comes_first_the_sentence_is_the_same():
    """Else each try would look like another state of affairs, and write the event anew."""
    half = make_request(make_container(memory=MemoryPercent(percent=50)))
    nodes = [
        make_node("a", usages=[card(0, memory_mib=40_000, memory_used_mib=21_000)]),
        make_node("b", usages=[card(0, memory_mib=20_000, memory_used_mib=11_000)]),
    ]

    said = {
        cluster_sentence(half, place(half, ordered, policies=Policies()).refusals)
        for ordered in (nodes, nodes[::-1])
    }

    assert said == {
        "no card of 2 on 2 nodes fits: 2 lack memory (need 10000 MiB, most free 9000 MiB)"
    }
