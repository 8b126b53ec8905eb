from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.model.request import PolicyName
from hamid.sched.answers import (
    WhatIf,
    anew_answer,
    decision_answer,
    fit_answer,
    pending_answer,
    placed_answer,
    problems_answer,
    what_if_answer,
)
from hamid.sched.outlook import outlook
from hamid.sched.placement.capacity import Capacity, NodeCapacity, Resettled
from hamid.sched.placement.place import place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.typical import Arrivals
from hamid.sched.verdicts import NodeLoad, Scene, Verdict
from tests.sched.builders import (
    make_allocation,
    make_container,
    make_device,
    make_devices,
    make_node,
    make_request,
)


def answer_of(mib, *nodes):
    request = make_request(make_container(memory=MemoryMib(mib=mib)))
    return pending_answer(outlook(request, nodes, Policies()))


def test_reasons_and_changes_have_numbers_and_units():
    answer = answer_of(41_000, make_node("a"), make_node("b", devices=make_devices(2)))

    assert "largest has 40000 MiB" in answer["sentence"]
    assert answer["reasons"] == [
        {
            "kind": "size",
            "cards": 3,
            "nodes": 2,
            "asked": 41_000,
            "free": 40_000,
            "capacity": 40_000,
            "lacking": 1_000,
            "unit": "MiB",
            "text": "3 cards on 2 nodes are too small (need 41000 MiB, largest has 40000 MiB)",
        }
    ]
    assert answer["changes"] == [
        {
            "kind": "memory",
            "text": "ask for 1000 MiB less (40000 instead of 41000) in container main",
            "node": "a",
            "less": [
                {
                    "container": "main",
                    "unit": "MiB",
                    "asked": 41_000,
                    "fitting": 40_000,
                    "less": 1_000,
                }
            ],
            "annotations": [],
            "uncordon": [],
            "pod": None,
        }
    ]


def test_a_pod_that_fits_now_is_told_where():
    answer = answer_of(1, make_node("a"), make_node("b"))

    assert answer["fits_now"] == ["a", "b"]
    assert answer["sentence"].startswith("the cards of 2 nodes would do now, best a;")


def test_of_a_placed_pod_its_shares_and_all_cards_of_the_node_are_shown():
    answer = placed_answer(make_allocation(), make_node(devices=[*make_devices(1)]))

    assert answer["containers"][0]["cards"] == [
        {"uuid": "card-a", "memory_mib": 1_000, "core_percent": 0}
    ]
    assert [(card["uuid"], card["is_chosen"]) for card in answer["cards"]] == [("card-0", False)]
    assert placed_answer(make_allocation(), None)["cards"] == []


def test_a_decision_has_a_term_for_each_policy():
    verdict = Verdict(
        pod_uid="u",
        pod_key="ns/p",
        decided_at_s=1.0,
        node_name="a",
        node_policies=(PolicyName.NUMA, PolicyName.BINPACK),
        fitting_count=1,
        best=(NodeLoad(node_name="a", load_ppm=7, costs=(1, -7)),),
        reasons={"no": 2},
    )

    answer = decision_answer(verdict, None, Policies())

    assert answer["best"] == [
        {"node": "a", "load_ppm": 7, "terms": {"numa": 1, "binpack": -7}, "cards": []}
    ]
    assert (answer["node"], answer["refusals"]) == ("a", {"no": 2})
    assert decision_answer(None, None, Policies()) is None


def test_what_would_be_decided_now_tells_of_each_card_its_terms_or_what_it_lacks():
    request = make_request(make_container(memory=MemoryMib(mib=2_000)))
    full = DeviceUsage(device=make_device("full"), memory_used_mib=39_000, slots_used=1)
    node = make_node(usages=[full, DeviceUsage(device=make_device("free", device_index=1))])
    policies = Policies(node=(PolicyName.BINPACK,), device=(PolicyName.SPREAD,))
    (placed,) = place(request, [node], policies=policies).ranked
    scene = Scene(request=request, considered=((node, placed),), typical=Arrivals().typical)

    answer = anew_answer(scene, policies, rank=1, fitting_count=1)

    assert (answer["rank"], answer["fitting_nodes"], answer["policies"]) == (1, 1, ["binpack"])
    (best,) = answer["best"]
    assert best["terms"] == {"binpack": -placed.load_ppm, "host": 0}
    lacking, chosen = best["cards"]
    assert (lacking["uuid"], lacking["terms"]) == ("full", {})
    assert lacking["lacking"] == ["lacks memory (need 2000 MiB, free 1000 MiB)"]
    assert (chosen["uuid"], chosen["is_chosen"], chosen["lacking"]) == ("free", True, [])
    assert set(chosen["terms"]) == {"spread"}


def test_something_is_supposed_as_soon_as_anything_is_named():
    assert not WhatIf()
    assert WhatIf(without_nodes=("a",))
    assert WhatIf(without_cards=("a",))
    assert WhatIf(with_nodes=("a",))


def test_what_fits_is_told_with_what_is_supposed():
    found = Capacity(pod_count=3, nodes=(NodeCapacity(node_name="a", pod_count=3),))
    requests = [make_request(uid="u", pod_name="p"), make_request(uid="v", pod_name="q")]
    after = Resettled(nodes=(), homeless=(requests[1],))

    what_if = what_if_answer(
        WhatIf(without_nodes=("b",)), [make_node("+1 (like a)")], requests, after
    )

    answer = fit_answer(found, before=5, what_if=what_if)

    assert answer == {
        "pods": 3,
        "pods_now": 5,
        "nodes": [{"node": "a", "pods": 3}],
        "what_if": {
            "without_nodes": ["b"],
            "without_cards": [],
            "with_nodes": ["+1 (like a)"],
            "evicted": 2,
            "resettled": 1,
            "homeless": ["default/q"],
        },
    }


def test_nodes_with_the_same_problem_are_told_together():
    assert problems_answer({"b": "x", "a": "x", "c": "y"}) == {"x": ["a", "b"], "y": ["c"]}
