from __future__ import annotations

import pytest

from hamid.daemon.simulate.controller import WorkloadController
from hamid.kube.fake import Fault, FaultKind
from hamid.kube.port import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS, EventKind, WatchEvent
from tests.daemon.simulate.manifests import pod, workload
from tests.daemon.simulate.world import World, status


@pytest.fixture
def world():
    return World()


@pytest.fixture
def controller(world):
    async def seen(_pod):
        await world.see()

    controller = WorkloadController(
        kube=world.kube, view=world.view, roster=world.roster, settle=seen
    )
    world.view.listeners.append(controller)
    return controller


async def create(world, controller, document, resource=STATEFUL_SETS):
    created = await world.kube.create(resource, document, namespace="default")
    controller.sink(resource).apply(WatchEvent(kind=EventKind.ADDED, object=created))
    await controller.step()
    return created


def refused_pod():
    return Fault(
        kind=FaultKind.STATUS, code=403, message="no such card", verb="create", resource="pods"
    )


async def names(world):
    return [item["metadata"]["name"] for item in (await world.kube.list(PODS)).items]


def scaled(document, count):
    return {**document, "spec": {**document["spec"], "replicas": count}}


async def test_a_workload_gets_its_pods(world, controller):
    await create(world, controller, workload("StatefulSet", replicas=2))

    assert await names(world) == ["web-0", "web-1"]
    assert list(world.roster.refusals) == ["default/web-0", "default/web-1"]


async def test_a_second_look_makes_nothing_more(world, controller):
    created = await create(world, controller, workload("StatefulSet", replicas=2))

    await controller.reconcile(STATEFUL_SETS, created)

    assert len(await names(world)) == 2


async def test_more_and_fewer_pods_are_made_to_be(world, controller):
    created = await create(world, controller, workload("StatefulSet", replicas=1))

    controller.took_workload(STATEFUL_SETS, scaled(created, 3))
    await controller.step()
    grown = await names(world)
    controller.took_workload(STATEFUL_SETS, scaled(created, 2))
    await controller.step()

    assert (grown, await names(world)) == (["web-0", "web-1", "web-2"], ["web-0", "web-1"])


async def test_a_pod_that_is_gone_is_made_again(world, controller):
    await create(world, controller, workload("StatefulSet", replicas=2))
    lost = world.pod("web-0")
    await world.kube.delete(PODS, "web-0", namespace="default")

    world.show(PODS, lost, is_gone=True)
    await controller.step()

    assert await names(world) == ["web-0", "web-1"]


async def test_pods_of_nobody_are_nobodys_business(world, controller):
    await world.add_pod(pod("a"))
    world.show(PODS, world.pod("a"), is_gone=True)

    await controller.step()

    assert await names(world) == ["a"]


async def test_a_pod_that_is_refused_is_noted_and_tried_again_when_the_workload_changes(
    world, controller
):
    world.kube.faults.add(refused_pod())

    created = await create(world, controller, workload("StatefulSet", replicas=2))
    refused = dict(world.roster.refusals)
    controller.took_workload(STATEFUL_SETS, scaled(created, 3))
    await controller.step()

    assert "no such card" in refused["default/web-0"]
    assert refused["default/web-1"] is None
    assert await names(world) == ["web-0", "web-1", "web-2"]


async def test_a_pod_of_that_name_that_is_anothers_counts_as_a_refusal(world, controller):
    await world.add_pod(pod("web-0"))

    await create(world, controller, workload("StatefulSet", replicas=1))

    assert "already exists" in world.roster.refusals["default/web-0"]


async def test_refusals_go_with_their_workload(world, controller):
    world.kube.faults.add(refused_pod())
    created = await create(world, controller, workload("StatefulSet"))
    assert world.roster.is_refused("default/web-0")

    controller.sink(STATEFUL_SETS).apply(WatchEvent(kind=EventKind.DELETED, object=created))

    assert world.roster.refusals == {}


async def test_a_list_without_a_workload_means_that_it_is_gone(world, controller):
    await create(world, controller, workload("StatefulSet", replicas=1))

    controller.sink(STATEFUL_SETS).replace(())

    assert controller.known(STATEFUL_SETS) == {}


@pytest.mark.parametrize(
    ("kind", "resource", "shown"),
    [
        pytest.param(
            "StatefulSet", STATEFUL_SETS, {"replicas": 1, "readyReplicas": 1}, id="a stateful set"
        ),
        pytest.param(
            "Deployment",
            DEPLOYMENTS,
            {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
            id="a deployment",
        ),
        pytest.param("Job", JOBS, {"active": 1, "ready": 1}, id="a job"),
    ],
)
async def test_the_status_counts_pods_that_are_up(world, controller, kind, resource, shown):
    await create(world, controller, workload(kind), resource)

    (up,) = world.view.pods.values()
    world.show(PODS, status(up, phase="Running"))
    await controller.step()

    stored = await world.kube.get(resource, "web", namespace="default")
    assert stored["status"] == shown
