from __future__ import annotations

import pytest

from hamid.daemon.simulate.scheduler import GATED, SimulatedScheduler
from hamid.kube.port import EVENTS, PODS
from tests.daemon.simulate.manifests import container, pod
from tests.daemon.simulate.world import OUR_NAME, World, status


@pytest.fixture
def world():
    return World()


@pytest.fixture
def scheduler(world):
    scheduler = SimulatedScheduler(
        kube=world.kube,
        extender=world.extender,
        view=world.view,
        our_name=OUR_NAME,
        ignored=("nvidia.com/gpu",),
        clock=lambda: 1_700_000_000.0,
    )
    world.view.listeners.append(scheduler)
    return scheduler


async def rest(scheduler):
    while not scheduler.is_idle:
        await scheduler.step()


def node_of(world, name):
    return world.pod(name)["spec"].get("nodeName")


def cores(amount, **more):
    return {"resources": {"requests": {"cpu": amount}}, **more}


async def test_the_best_node_wins_and_of_equals_the_first_by_name(world, scheduler):
    for name in ("n-2", "n-1", "n-3"):
        await world.add_node(name)
    world.extender.scores = {"n-1": 40, "n-2": 40, "n-3": 7}

    await world.add_pod(pod("a"))
    await rest(scheduler)

    assert node_of(world, "a") == "n-1"


async def test_scores_over_ten_are_not_clamped(world, scheduler):
    for name in ("n-1", "n-2"):
        await world.add_node(name)
    world.extender.scores = {"n-1": 11, "n-2": 99}

    await world.add_pod(pod("a"))
    await rest(scheduler)

    assert node_of(world, "a") == "n-2"


async def test_the_extender_is_asked_about_nodes_that_pass_the_own_checks_only(world, scheduler):
    await world.add_node("small", cpu="1")
    await world.add_node("large", cpu="8")

    await world.add_pod(pod("a", container(**cores(4))))
    await rest(scheduler)

    assert world.extender.asked == [("a", ("large",))]


async def test_a_pod_that_fits_nowhere_waits_with_the_reasons_of_both(world, scheduler):
    await world.add_node("small", cpu="1")
    await world.add_node("large", cpu="8")
    world.extender.refusals = {"large": "no card fits"}

    uid = await world.add_pod(pod("a", container(**cores(4))))
    await rest(scheduler)

    reason = "0/2 nodes are available: 1 Insufficient cpu, 1 no card fits."
    assert scheduler.reasons == {uid: reason}
    stored = await world.kube.get(PODS, "a", namespace="default")
    assert stored["status"]["conditions"][0]["message"] == reason
    (event,) = (await world.kube.list(EVENTS)).items
    assert (event["reason"], event["message"]) == ("FailedScheduling", reason)
    assert event["lastTimestamp"] == "2023-11-14T22:13:20Z"


async def test_the_same_reason_is_said_once(world, scheduler):
    await world.add_node("n")
    world.extender.refusals = {"n": "no card fits"}
    await world.add_pod(pod("a"))
    await rest(scheduler)

    scheduler.wake()
    await rest(scheduler)

    assert len((await world.kube.list(EVENTS)).items) == 1


async def test_pods_are_tried_in_the_order_of_their_creation(world, scheduler):
    await world.add_node("n", cpu="3")
    for name in ("c", "a", "b"):
        await world.add_pod(pod(name, container(**cores(2))))

    await rest(scheduler)

    assert [node_of(world, name) for name in ("c", "a", "b")] == ["n", None, None]


async def test_what_bound_pods_request_is_gone_from_the_node(world, scheduler):
    await world.add_node("n", cpu="3")
    await world.add_pod(pod("a", container(**cores(2))))
    uid = await world.add_pod(pod("b", container(**cores(2))))
    await rest(scheduler)

    assert scheduler.reasons[uid] == "0/1 nodes are available: 1 Insufficient cpu."


async def waiting_beside_a_bound_pod(world, scheduler):
    await world.add_node("n", cpu="3")
    await world.add_pod(pod("a", container(**cores(2)), initContainers=[container("i")]))
    await world.add_pod(pod("b", container(**cores(2))))
    await rest(scheduler)
    world.extender.asked.clear()


async def test_a_pod_that_goes_wakes_those_that_wait(world, scheduler):
    await waiting_beside_a_bound_pod(world, scheduler)

    world.show(PODS, world.pod("a"), is_gone=True)
    await rest(scheduler)

    assert node_of(world, "b") == "n"


async def test_a_pod_that_ends_wakes_those_that_wait(world, scheduler):
    await waiting_beside_a_bound_pod(world, scheduler)

    world.show(PODS, status(world.pod("a"), phase="Succeeded"))
    await rest(scheduler)

    assert world.extender.asked == [("b", ("n",))]


async def test_a_pod_through_its_init_phase_wakes_those_that_wait(world, scheduler):
    await waiting_beside_a_bound_pod(world, scheduler)
    world.extender.refusals = {"n": "no card fits"}
    await world.add_pod(pod("small"))
    await rest(scheduler)
    world.extender.asked.clear()

    world.show(PODS, status(world.pod("a"), phase="Running"))
    await rest(scheduler)

    assert world.extender.asked == [("small", ("n",))]


async def test_a_new_node_wakes_those_that_wait(world, scheduler):
    await waiting_beside_a_bound_pod(world, scheduler)

    await world.add_node("n-2")
    await rest(scheduler)

    assert node_of(world, "b") == "n-2"


async def test_news_that_makes_no_room_wakes_nobody(world, scheduler):
    await waiting_beside_a_bound_pod(world, scheduler)

    world.show(PODS, status(world.pod("a"), phase="Pending", message="starting"))
    world.show(PODS, status(world.pod("b"), message="waits"))

    assert scheduler.is_idle


async def test_a_pod_that_asks_otherwise_is_tried_again(world, scheduler):
    await world.add_node("n")
    world.extender.refusals = {"n": "no card fits"}
    await world.add_pod(pod("a"))
    await rest(scheduler)
    world.extender.refusals.clear()

    now = world.pod("a")
    metadata = {**now["metadata"], "annotations": {"nvidia.com/use-gputype": "T4"}}
    world.show(PODS, {**now, "metadata": metadata})
    await rest(scheduler)

    assert node_of(world, "a") == "n"


async def test_a_deleted_pod_is_forgotten(world, scheduler):
    await world.add_node("n")
    world.extender.refusals = {"n": "no card fits"}
    await world.add_pod(pod("a"))
    await rest(scheduler)

    world.show(PODS, world.pod("a"), is_gone=True)

    assert scheduler.is_idle
    assert scheduler.reasons == {}


async def test_pods_that_are_not_ours_go_to_the_first_node_that_takes_them(world, scheduler):
    await world.add_node("small", cpu="1")
    await world.add_node("large", cpu="8")

    await world.add_pod(pod("a", container(**cores(2))), is_ours=False)
    await rest(scheduler)

    assert node_of(world, "a") == "large"
    assert world.extender.asked == []


async def test_a_pod_of_another_scheduler_is_left_alone(world, scheduler):
    await world.add_node("n")

    uid = await world.add_pod(pod("a", schedulerName="volcano"))

    assert scheduler.is_idle
    assert scheduler.reasons[uid] == "no scheduler 'volcano' runs here"


async def test_a_gated_pod_is_not_tried(world, scheduler):
    await world.add_node("n")

    uid = await world.add_pod(pod("a", schedulingGates=[{"name": "quota"}]))

    assert scheduler.is_idle
    assert scheduler.reasons[uid] == GATED


async def test_after_an_error_the_pod_is_tried_again(world, scheduler):
    scheduler.backoff.first_s = scheduler.backoff.max_s = 0.0
    await world.add_node("n")
    world.extender.errors = ["nobody leads"]

    await world.add_pod(pod("a"))
    await scheduler.step()
    assert "nobody leads" in next(iter(scheduler.reasons.values()))
    await rest(scheduler)

    assert node_of(world, "a") == "n"
