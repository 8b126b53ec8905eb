from __future__ import annotations

import pytest

from hamid.aiokit.services import running
from hamid.daemon.simulate.kubelet import (
    NodeStatusWriter,
    SimulatedKubelet,
    node_object,
    pod_status,
)
from hamid.daemon.simulate.nodes import SimulatedCards, SimulatedNode
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES, PODS, EventKind, WatchEvent
from hamid.kubelet.fake import (
    ContainerState,
    FakeContainerStatus,
    FakeKubelet,
    FakePodStatus,
    Phase,
)
from hamid.kubelet.fake.books import Capacity
from tests.daemon.simulate.manifests import container, pod

RESOURCE = "nvidia.com/gpu"
UP = FakeContainerStatus(state=ContainerState.RUNNING, start_count=1)
DONE = FakeContainerStatus(state=ContainerState.COMPLETED, start_count=1)


@pytest.fixture
async def kubelet(tmp_path):
    async with FakeKubelet(tmp_path / "k") as kubelet:
        yield kubelet


@pytest.fixture
def kube():
    return FakeKube()


@pytest.fixture
async def simulated(kube, kubelet):
    simulated = SimulatedKubelet(node_name="n", resource_name=RESOURCE, kube=kube, kubelet=kubelet)
    async with running(simulated):
        yield simulated


async def bound(kube, document):
    created = await kube.create(PODS, document, namespace="default")
    name, uid = created["metadata"]["name"], created["metadata"]["uid"]
    await kube.bind(namespace="default", name=name, uid=uid, node_name="n", annotations={})
    return await kube.get(PODS, name, namespace="default")


async def until(kube, is_true):
    """The first state of all pods, by name, for which it holds."""
    pods = {p["metadata"]["name"]: p for p in (await kube.list(PODS)).items}
    version = (await kube.list(PODS)).resource_version
    if is_true(pods):
        return pods
    async for event in kube.watch(PODS, resource_version=version, timeout_s=10.0):
        name = event.object["metadata"]["name"]
        if event.kind is EventKind.DELETED:
            pods.pop(name, None)
        else:
            pods[name] = event.object
        if is_true(pods):
            return pods
    raise AssertionError("the watch ended")


def is_up(pods):
    return "a" in pods and pods["a"]["status"]["phase"] == "Running"


async def test_a_pod_on_the_node_comes_to_run(kube, simulated):
    simulated.replace((await bound(kube, pod("a")),))

    pods = await until(kube, is_up)

    (entry,) = pods["a"]["status"]["containerStatuses"]
    assert (entry["name"], entry["ready"], entry["state"]) == ("main", True, {"running": {}})


async def test_a_pod_that_the_device_manager_rejects_fails_with_its_words(kube, kubelet, simulated):
    kubelet.books.replace_devices(RESOURCE, ())  # its plugin has registered, and lists nothing
    simulated.replace((await bound(kube, pod("a", container(gpu=1))),))

    pods = await until(kube, lambda pods: pods["a"]["status"]["phase"] == "Failed")

    assert pods["a"]["status"]["reason"] == "UnexpectedAdmissionError"
    assert "nvidia.com/gpu" in pods["a"]["status"]["message"]


async def test_a_pod_being_deleted_is_ended_and_gone(kube, kubelet, simulated):
    first = await bound(kube, pod("a"))
    simulated.replace((first,))
    await until(kube, is_up)

    await kube.delete(PODS, "a", namespace="default")
    marked = await kube.get(PODS, "a", namespace="default")
    simulated.apply(WatchEvent(kind=EventKind.MODIFIED, object=marked))
    await until(kube, lambda pods: not pods)

    assert kubelet.active_pods() == ()


async def test_a_pod_that_is_suddenly_gone_is_ended(kube, kubelet, simulated):
    first = await bound(kube, pod("a"))
    simulated.replace((first,))
    await until(kube, is_up)

    simulated.apply(WatchEvent(kind=EventKind.DELETED, object=first))
    simulated.replace((await bound(kube, pod("b")),))
    await until(kube, lambda pods: pods.get("b", {}).get("status", {}).get("phase") == "Running")

    assert [active.name for active in kubelet.active_pods()] == ["b"]


async def test_an_answer_for_a_pod_that_was_deleted_meanwhile_is_let_go(kube, simulated):
    first = await bound(kube, pod("a"))
    await kube.delete(PODS, "a", namespace="default", grace_period_s=0)

    simulated.replace((first, await bound(kube, pod("b"))))

    await until(kube, lambda pods: pods.get("b", {}).get("status", {}).get("phase") == "Running")


async def test_the_nodes_status_has_what_the_kubelet_counts(kube, kubelet):
    await kube.create(NODES, node_object(SimulatedNode(name="n")))
    version = (await kube.list(NODES)).resource_version
    writer = NodeStatusWriter(node_name="n", kube=kube, kubelet=kubelet)

    kubelet.capacities.publish({RESOURCE: Capacity(capacity=20, allocatable=10)})
    async with running(writer):
        event = await anext(kube.watch(NODES, resource_version=version))

    status = event.object["status"]
    assert (status["capacity"][RESOURCE], status["allocatable"][RESOURCE]) == ("20", "10")
    assert status["allocatable"]["cpu"] == "64"


def test_a_node_with_cards_is_marked_as_hami_users_mark_them():
    plain = node_object(SimulatedNode(name="n", labels={"zone": "a"}))
    with_cards = node_object(SimulatedNode(name="n", cards=(SimulatedCards(model="T4"),)))

    assert "gpu" not in plain["metadata"]["labels"]
    assert plain["metadata"]["labels"]["zone"] == "a"
    assert with_cards["metadata"]["labels"]["gpu"] == "on"


def test_a_container_that_does_not_start_says_why():
    waiting = FakeContainerStatus(state=ContainerState.CONFIG_ERROR, message="no grant")

    status = pod_status(pod(), FakePodStatus(containers={"main": waiting}))

    assert status["phase"] == "Pending"
    (entry,) = status["containerStatuses"]
    assert entry["state"] == {
        "waiting": {"reason": "CreateContainerConfigError", "message": "no grant"}
    }


def test_init_containers_have_a_list_of_their_own():
    document = pod("a", container("app"), initContainers=[container("init")])

    status = pod_status(
        document, FakePodStatus(phase=Phase.RUNNING, containers={"init": DONE, "app": UP})
    )

    (entry,) = status["initContainerStatuses"]
    assert entry["state"] == {"terminated": {"exitCode": 0, "reason": "Completed"}}
    assert [entry["name"] for entry in status["containerStatuses"]] == ["app"]
