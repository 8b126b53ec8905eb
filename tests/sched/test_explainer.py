from contextlib import contextmanager

import pytest

from hamid.errors import RequestError
from hamid.kube.port import PODS
from hamid.sched.answers import WhatIf
from hamid.sched.explainer import Explainer
from hamid.sched.leadership import FixedLeadership
from hamid.sched.nominations import Nomination
from hamid.web.errors import Refusal
from tests.builders import container_object, pod_object
from tests.sched.builders import make_allocation, make_device, make_devices, make_share
from tests.sched.objects import bound, quota_object, registered, waiting
from tests.sched.world import World


@pytest.fixture
def world():
    return World(pod_wait_s=0.01, sync_wait_s=0.01)


def explainer_of(world, leadership=None):
    return Explainer(
        cache=world.cache,
        verdicts=world.extender.explanations,
        refused=world.extender.refused,
        nominations=world.extender.nominations,
        leadership=leadership or world.leadership,
        settings=world.settings,
    )


def shape(mib):
    return pod_object(container_object("main", {"gpu": 1, "gpumem": mib}))


async def explained(world, name):
    with nothing_changed(world):
        return await explainer_of(world).explain("default", name)


async def fitted(world, pod, what_if):
    with nothing_changed(world):
        return await explainer_of(world).fit(pod, what_if)


@contextmanager
def nothing_changed(world):
    """Nothing is booked, reserved, promised, learned or written by a question."""
    before = all_of(world)
    yield
    assert all_of(world) == before


def all_of(world):
    cache, extender, arrivals = world.cache, world.extender, world.binder.arrivals
    return {
        "nodes": cache.snapshots(),
        "pods": cache.pod_records(),
        "reservations": cache.reservations(),
        "quotas": tuple(cache.quotas.all()),
        "times of freed room": cache.freed.serial,
        "nominations": tuple(extender.nominations),
        "refused": dict(extender.refused.tries()),
        "verdicts": extender.explanations.all(),
        "what usually comes": arrivals.typical,
        "arrivals": dict(arrivals._weights),
        "requests": world.kube.requests.by(),
    }


async def test_a_waiting_pod_is_told_what_is_lacking_and_what_would_help(world):
    (call,) = await world.create(registered(), waiting(name="big", mib=50_000))
    await world.filter(call)

    answer = await explained(world, "big")

    assert answer["state"] == "pending"
    assert answer["reasons"][0]["lacking"] == 10_000
    assert [change["kind"] for change in answer["changes"]] == ["memory"]
    assert answer["sentence"] == answer["decision"]["sentence"]


async def test_a_pod_that_waits_for_its_quota_is_told_by_how_much(world):
    (call,) = await world.create(
        registered(), quota_object(gpumem=4_096), waiting(name="big", mib=5_000)
    )
    await world.filter(call)

    answer = await explained(world, "big")

    assert (answer["state"], answer["fits_now"], answer["remark"]) == ("pending", [], "")
    assert answer["sentence"] == answer["decision"]["sentence"]
    (change,) = answer["changes"]
    assert change["text"] == "ask for 904 MiB less (4096 instead of 5000) in container main"
    (reason,) = answer["reasons"]
    assert (reason["kind"], reason["lacking"], reason["unit"]) == (
        "quota",
        904,
        "MiB of card memory",
    )
    assert (reason["asked"], reason["free"], reason["capacity"]) == (5_000, 4_096, 4_096)


async def test_it_is_said_how_many_pods_a_quota_has_room_for(world):
    await world.create(registered(), quota_object(gpumem=2_500))

    answer = await fitted(world, shape(1_000), WhatIf())
    assert (answer["pods"], answer["quota_pods"]) == (10, 2)

    elsewhere = {**shape(1_000), "metadata": {"name": "x", "namespace": "other", "uid": ""}}
    assert (await fitted(world, elsewhere, WhatIf()))["quota_pods"] is None


async def made_room(world, *, priority=10):
    """A card that a pod holds, and that is promised to another."""
    (low,) = await world.create(registered(), waiting(name="low", mib=40_000))
    await world.filter(low)
    await world.binder.bind(low.bind("node-a"))
    (call,) = await world.create(waiting(name="high", mib=40_000, priority=priority))
    await world.filter(call)
    world.extender.nominations.put(
        Nomination(
            allocation=make_allocation(
                make_share("card-0", memory_mib=40_000), uid=call.uid, node_name="node-a"
            ),
            priority=priority,
            victims=frozenset({low.uid}),
            expires_at=world.clock() + 60,
        )
    )


async def test_it_is_said_that_room_is_being_made_and_who_leaves(world):
    await made_room(world)

    answer = await explained(world, "high")

    assert answer["making_room"] == {"node": "node-a", "leaving": ["default/low"]}
    assert answer["sentence"].startswith(
        "room is being made on node node-a, where 1 pod has yet to end. Until then, no card of 1 fits"
    )


async def test_once_they_have_ended_the_room_is_said_to_be_there(world):
    await made_room(world)
    await world.kube.delete(PODS, "low", namespace="default", grace_period_s=0)
    await world.sync()

    answer = await explained(world, "high")

    assert answer["making_room"] == {"node": "node-a", "leaving": []}
    assert answer["fits_now"] == ["node-a"]


async def test_promised_room_is_said_to_fit_nobody_else(world):
    await made_room(world)
    await world.kube.delete(PODS, "low", namespace="default", grace_period_s=0)
    await world.create(waiting(name="thief", mib=1_000), waiting(name="above", priority=11))

    thief = await explained(world, "thief")

    assert (thief["fits_now"], thief["making_room"]) == ([], None)
    assert (await explained(world, "above"))["fits_now"] == ["node-a"]
    assert (await fitted(world, shape(1_000), WhatIf()))["pods"] == 0


async def test_a_pod_that_was_never_asked_about_is_explained_too(world):
    await world.create(registered(), waiting(name="new"))

    answer = await explained(world, "new")

    assert answer["fits_now"] == ["node-a"]
    assert answer["decision"] is None


async def test_a_placed_pod_is_told_why_there(world):
    (call,) = await world.create(registered("a"), registered("b"), waiting(name="p"))
    await world.filter(call)
    assert (await explained(world, "p"))["state"] == "reserved"
    await world.binder.bind(call.bind("a"))
    await world.sync()

    answer = await explained(world, "p")

    assert (answer["state"], answer["node"]) == ("placed", "a")
    assert [found["node"] for found in answer["decision"]["best"]] == ["a", "b"]
    assert all("fragmentation" in found["terms"] for found in answer["decision"]["best"])
    assert [card["is_chosen"] for card in answer["cards"]] == [True]
    best, second = answer["decision"]["best"]
    assert best["cards"][0]["terms"] == best["terms"]
    assert [best["cards"][0]["is_chosen"], second["cards"][0]["is_chosen"]] == [True, True]
    assert "anew" not in answer


async def test_a_placed_pod_whose_decision_is_not_known_is_decided_anew(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([registered("a"), registered("b"), registered("c", ())])
    world.cache.take_pods(
        [
            bound(make_share("card-0", memory_mib=9_000), uid="u", node_name="a"),
            bound(make_share("card-0", memory_mib=39_000), uid="v", node_name="b"),
        ]
    )

    answer = await explained(world, "pod-u")

    assert answer["decision"] is None
    assert (answer["anew"]["rank"], answer["anew"]["fitting_nodes"]) == (1, 1)
    (found,) = answer["anew"]["best"]
    assert (found["node"], found["cards"][0]["is_chosen"]) == ("a", True)


async def test_a_waiting_pod_is_told_whose_departure_would_help(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([registered()])
    held = bound(make_share("card-0", memory_mib=30_000), uid="old")
    world.cache.take_pods([held, waiting(uid="new", name="big", mib=30_000)])

    changes = {change["kind"]: change for change in (await explained(world, "big"))["changes"]}

    assert changes["departure"]["pod"] == "default/pod-old"
    assert changes["departure"]["text"] == "delete pod default/pod-old (priority 0)"


async def test_nodes_that_kube_scheduler_did_not_offer_are_not_judged(world):
    (call,) = await world.create(registered("a"), registered("b"), waiting(name="big", mib=50_000))
    await world.filter(call, "a")

    answer = await explained(world, "big")

    assert answer["set_aside"] == 1
    assert answer["reasons"][0]["nodes"] == 1
    assert answer["sentence"].endswith("kube-scheduler did not offer 1 node")


async def test_pods_that_are_not_ours_or_not_right_are_told_so(world):
    await world.create(
        registered(),
        waiting(name="cpu", containers=(container_object("main", {}),)),
        waiting(name="wrong", mib=0),
    )

    assert (await explained(world, "cpu"))["state"] == "not-ours"
    assert (await explained(world, "wrong"))["state"] == "invalid"


async def test_an_unknown_pod_is_refused(world):
    await world.create(registered())

    with pytest.raises(Refusal, match="no pod default/nobody") as caught:
        await explained(world, "nobody")

    assert caught.value.status == 404


async def test_only_the_leader_answers_and_only_when_it_knows_the_cluster(world):
    with pytest.raises(Refusal, match="still lists the cluster"):
        await explainer_of(world).explain("default", "p")
    with pytest.raises(Refusal, match="does not lead"):
        await explainer_of(world, FixedLeadership(is_leader=False)).fit(shape(1), WhatIf())


async def test_more_pods_are_counted_by_node(world):
    await world.create(registered("a"), registered("b", make_devices(2)))

    answer = await fitted(world, shape(20_000), WhatIf())

    assert answer == {
        "pods": 6,
        "pods_now": 6,
        "quota_pods": None,
        "nodes": [{"node": "b", "pods": 4}, {"node": "a", "pods": 2}],
        "what_if": None,
    }


async def test_the_pods_of_a_drained_node_take_room_elsewhere(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([registered("a", make_devices(2)), registered("b", make_devices(1))])
    world.cache.take_pods(
        bound(make_share(f"card-{n}", memory_mib=30_000), uid=f"u{n}", node_name="a")
        for n in range(2)
    )

    answer = await fitted(world, shape(5_000), WhatIf(without_nodes=("a",)))

    assert (answer["pods_now"], answer["pods"]) == (12, 2)
    assert answer["what_if"]["evicted"] == 2
    assert len(answer["what_if"]["homeless"]) == 1


@pytest.mark.parametrize(
    "what_if",
    [
        WhatIf(),
        WhatIf(without_nodes=("node-a",)),
        WhatIf(without_cards=("card-1",)),
        WhatIf(with_nodes=("node-a",)),
    ],
)
async def test_asking_what_fits_changes_nothing_and_teaches_nothing(world, what_if):
    """Beside pods that are bound, reserved, refused and made room for, and a quota."""
    await world.create(quota_object(gpumem=400_000))
    await made_room(world)
    reserved, refused = await world.create(
        registered("node-b", make_devices(2)),
        waiting(name="reserved", mib=9_000),
        waiting(name="refused", mib=50_000),
    )
    await world.filter(reserved)
    await world.filter(refused)
    assert world.cache.reservation(reserved.uid)
    assert world.extender.refused.tries().keys() >= {refused.uid}

    for number in range(20):
        answer = await fitted(world, shape(1_000 + number), what_if)
        assert answer["pods"] > 0


async def test_a_lost_card_is_counted_out_and_its_pods_move(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([registered("a", make_devices(2))])
    world.cache.take_pods([bound(make_share("card-1", memory_mib=30_000), node_name="a")])

    answer = await fitted(world, shape(10_000), WhatIf(without_cards=("card-1",)))

    assert (answer["pods_now"], answer["pods"]) == (5, 1)
    assert answer["what_if"]["resettled"] == 1


async def test_a_node_that_is_supposed_takes_pods_and_those_of_drained_ones(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([registered("a", make_devices(2))])
    world.cache.take_pods([bound(make_share("card-1", memory_mib=30_000), node_name="a")])
    what_if = WhatIf(without_nodes=("a",), with_nodes=("a",))

    answer = await fitted(world, shape(10_000), what_if)

    assert (answer["pods_now"], answer["pods"]) == (5, 5)
    assert answer["nodes"][0]["node"] == answer["what_if"]["with_nodes"][0] == "+1 (like a)"
    assert answer["what_if"]["homeless"] == []


async def test_what_cannot_be_meant_is_refused(world):
    await world.create(registered())
    explainer = explainer_of(world)

    with pytest.raises(RequestError, match="no node 'x' among the 1"):
        await explainer.fit(shape(1), WhatIf(without_nodes=("x",)))
    with pytest.raises(RequestError, match="no card 'y'"):
        await explainer.fit(shape(1), WhatIf(without_cards=("y",)))
    with pytest.raises(RequestError, match="no card is asked for"):
        await explainer.fit(pod_object(container_object("main", {})), WhatIf())


def with_cpu(node, cpu):
    return {**node, "status": {"allocatable": {"cpu": cpu, "memory": "64Gi"}}}


def with_cpu_asked(share, *, cpu, **more):
    container = container_object("main", {"gpu": 1, "gpumem": 1_000, "cpu": cpu})
    return bound(share, containers=(container,), **more)


async def test_pods_that_must_leave_take_their_processors_along(world):
    """Or the room that they need elsewhere would be counted for others, too."""
    world.cache.take_quotas([])
    world.cache.take_nodes(
        [
            with_cpu(registered("a", make_devices(2)), "8"),
            with_cpu(registered("b", [make_device("card-b")]), "8"),
        ]
    )
    world.cache.take_pods([with_cpu_asked(make_share("card-0"), cpu="5", node_name="a")])
    asked = pod_object(container_object("main", {"gpu": 1, "gpumem": 1_000, "cpu": "3"}))

    drained = await fitted(world, asked, WhatIf(without_nodes=("a",)))
    lost = await fitted(world, asked, WhatIf(without_cards=("card-0",)))

    assert (drained["pods_now"], drained["pods"]) == (1 + 2, 1)
    assert (lost["pods"], lost["what_if"]["resettled"]) == (1 + 2, 1)


async def test_a_placed_pod_is_decided_anew_among_nodes_with_processors_for_it(world):
    world.cache.take_quotas([])
    world.cache.take_nodes([with_cpu(registered("a"), "4"), with_cpu(registered("b"), "2")])
    world.cache.take_pods([with_cpu_asked(make_share("card-0"), cpu="3", node_name="a")])

    answer = await explained(world, "pod-uid-1")

    assert (answer["anew"]["rank"], answer["anew"]["fitting_nodes"]) == (1, 1)
