import asyncio

import pytest

from hamid.codec.allocation_record import encode_allocation
from hamid.kube.fake import FakeKube, Fault, FaultKind
from hamid.kube.port import PODS, EventKind, WatchEvent
from hamid.model.names import (
    CORE_MODE,
    CORE_WEIGHT,
    POD_ALLOCATED,
    POD_ALLOCATION,
    POD_NODE,
    ResourceNames,
)
from hamid.model.request import ContainerKind
from hamid.model.sharing import Sharing, SharingMode
from hamid.plugin.pods import NodePods, pod_on_node
from tests.builders import container_object, make_allocation, pod_object
from tests.plugin.node import NODE


def node_pods(kube=None):
    return NodePods(node_name=NODE, names=ResourceNames(), kube=kube or FakeKube())


def bound(name="pod-1", uid="uid-1", *, limits=None, **fields):
    container = container_object(limits={"gpu": 1} if limits is None else limits)
    return pod_object(container, name=name, uid=uid, node_name=NODE, **fields)


def seen(pod, names=None):
    return pod_on_node(pod, names=names or ResourceNames())


def event(kind, pod):
    return WatchEvent(kind=kind, object=pod)


def uids(pods):
    return sorted(pod.pod_uid for pod in pods.pods())


def test_containers_that_ask_come_in_the_order_of_the_spec_with_kind_and_place():
    pod = pod_object(
        container_object("web", {"gpu": 2}),
        container_object("proxy"),
        container_object("log", {"gpu": 1}),
        init_containers=[
            container_object("prep", {"gpu": 1}),
            container_object("side", {"gpu": 3}, restartPolicy="Always"),
        ],
    )

    assert [(c.name, c.kind, c.position, c.slot_count) for c in seen(pod).asking] == [
        ("prep", ContainerKind.INIT, 0, 1),
        ("side", ContainerKind.SIDECAR, 1, 3),
        ("web", ContainerKind.APP, 2, 2),
        ("log", ContainerKind.APP, 4, 1),
    ]


def test_a_container_shares_its_time_as_the_pod_says():
    pod = bound(annotations={CORE_MODE: "lend", CORE_WEIGHT: "3"})

    assert seen(pod).sharing("train") == Sharing(mode=SharingMode.LEND, weight=3)
    assert seen(pod).sharing("other") == Sharing()


def test_a_way_to_share_that_there_is_not_is_a_hard_cap_and_said(logs):
    pod = bound(annotations={CORE_MODE: "steal"})

    assert seen(pod).sharing("train") == Sharing(mode=SharingMode.HARD)
    assert [entry["event"] for entry in logs] == ["sharing unreadable"]


def test_only_limits_count_as_for_the_kubelet():
    pod = pod_object(container_object("a", requests={"gpu": 1}), container_object("b", {"gpu": 0}))

    assert seen(pod).asking == ()


def test_a_count_is_one_however_it_is_written():
    pod = pod_object(container_object("a", {"gpu": "2.0"}), container_object("b", {"gpu": "1e0"}))

    assert [(c.name, c.slot_count) for c in seen(pod).asking] == [("a", 2), ("b", 1)]


def test_a_pod_has_what_was_decided_for_it():
    record = encode_allocation(make_allocation(pod_uid="uid-1", node_name=NODE))

    assert seen(bound(annotations={POD_ALLOCATION: record})).allocation is not None


def test_what_hami_decided_is_read_by_the_names_that_the_operator_gave():
    """Of a container without cards it leaves out the place, so that who asks has to be known."""
    names = ResourceNames(count="example.com/vgpu")
    pod = pod_object(
        container_object("proxy"),
        {"name": "train", "resources": {"limits": {"example.com/vgpu": "1"}}},
        node_name=NODE,
        annotations={POD_NODE: NODE, POD_ALLOCATED: "GPU-1,NVIDIA,3000,30:;"},
    )

    found = seen(pod, names)

    assert [c.name for c in found.asking] == ["train"]
    assert found.problem is None
    assert found.decided("train").shares[0].memory_mib == 3_000


@pytest.mark.parametrize(("phase", "is_terminal"), [("Running", False), ("Failed", True)])
def test_a_finished_pod_is_known_as_such(phase, is_terminal):
    assert seen({**bound(), "status": {"phase": phase}}).is_terminal is is_terminal


def test_containers_that_run_are_known():
    runs = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    status = {
        "initContainerStatuses": [
            {"name": "first", "state": {"terminated": {"exitCode": 0}}},
            {"name": "car", **runs},
        ],
        "containerStatuses": [{"name": "main", **runs}, {"name": "late", "state": {"waiting": {}}}],
    }

    assert seen(bound() | {"status": status}).running == {"car", "main"}


def test_an_allocation_that_cannot_be_read_is_said_once(logs):
    pods = node_pods()

    for _ in range(2):
        pods.keep(bound(annotations={POD_ALLOCATION: "{"}))

    assert "cannot be read" in (pods.pod("uid-1").problem or "")
    assert [entry["event"] for entry in logs] == ["allocation unreadable"]


def test_an_allocation_of_another_pod_is_a_problem_and_no_allocation():
    record = encode_allocation(make_allocation(pod_uid="another", node_name=NODE))

    pod = seen(bound(annotations={POD_ALLOCATION: record}))

    assert pod.allocation is None
    assert "another" in (pod.problem or "")


def test_the_watch_brings_changes_and_takes_away_pods():
    pods = node_pods()
    pods.replace((bound(), bound("idle", "uid-2", limits={})))
    pods.apply(event(EventKind.ADDED, bound("pod-3", "uid-3")))
    pods.apply(event(EventKind.MODIFIED, {**bound(), "status": {"phase": "Failed"}}))

    assert uids(pods) == ["uid-1", "uid-3"]
    assert pods.pod("uid-1").is_terminal

    pods.apply(event(EventKind.DELETED, bound()))

    assert uids(pods) == ["uid-3"]


def test_a_bookmark_changes_nothing():
    pods = node_pods()
    pods.keep(bound())

    pods.apply(event(EventKind.BOOKMARK, {"metadata": {"resourceVersion": "9"}}))

    assert uids(pods) == ["uid-1"]


def test_a_new_list_takes_the_place_of_everything():
    pods = node_pods()
    pods.keep(bound())

    pods.replace((bound("pod-2", "uid-2"),))

    assert uids(pods) == ["uid-2"]


def test_a_pod_missing_in_an_old_list_may_come_back():
    pods = node_pods()
    pods.keep(bound())
    pods.replace(())

    pods.apply(event(EventKind.ADDED, bound()))

    assert uids(pods) == ["uid-1"]


def test_a_pod_made_anew_under_the_same_name_takes_the_place_of_the_old():
    pods = node_pods()
    pods.keep(bound(uid="uid-old"))

    pods.keep(bound(uid="uid-new"))

    assert uids(pods) == ["uid-new"]
    assert pods.by_name("default", "pod-1").pod_uid == "uid-new"


def test_a_finished_pod_is_not_found_by_name():
    pods = node_pods()
    pods.keep({**bound(), "status": {"phase": "Succeeded"}})

    assert pods.by_name("default", "pod-1") is None
    assert pods.by_name("other", "pod-1") is None


async def created(kube, name="pod-1"):
    pod = bound(name)
    del pod["metadata"]["uid"]
    return await kube.create(PODS, pod)


async def test_a_pod_that_the_watch_has_not_brought_is_listed():
    kube = FakeKube()
    pod = await created(kube)
    pods = node_pods(kube)

    found = await pods.find(pod["metadata"]["uid"])

    assert found is not None
    assert await pods.find(pod["metadata"]["uid"]) == found
    assert kube.requests.count(verb="list") == 1


async def test_a_list_never_undoes_what_the_watch_has_told():
    kube = FakeKube()
    pod = await created(kube)
    other = await created(kube, "pod-2")
    pods = node_pods(kube)
    pods.apply(event(EventKind.MODIFIED, {**pod, "status": {"phase": "Failed"}}))
    pods.apply(event(EventKind.DELETED, other))

    await pods.refresh()

    assert [p.name for p in pods.pods()] == ["pod-1"]
    assert pods.pods()[0].is_terminal


async def test_a_list_from_before_the_watch_began_anew_brings_no_deleted_pod_back():
    class Slow(FakeKube):
        """Its first list is answered after a watch has been broken and begun anew."""

        async def list(self, *args, **kwargs):
            listed = await super().list(*args, **kwargs)
            if not self.gates:
                return listed
            answered, may_go_on = self.gates.pop()
            answered.set()
            await may_go_on.wait()
            return listed

    kube = Slow()
    old = await created(kube)
    pods = node_pods(kube)
    answered, may_go_on = asyncio.Event(), asyncio.Event()
    kube.gates = [(answered, may_go_on)]

    async with asyncio.TaskGroup() as group:
        group.create_task(pods.refresh())
        await answered.wait()
        await kube.delete(PODS, "pod-1", namespace="default", grace_period_s=0)
        new = await created(kube)
        pods.replace((await kube.list(PODS)).items)
        may_go_on.set()

    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    assert uids(pods) == [new["metadata"]["uid"]]


async def test_an_api_server_that_is_down_leaves_what_is_known(assert_logged):
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.STATUS, verb="list", code=503))
    pods = node_pods(kube)
    pods.keep(bound())

    assert await pods.find("uid-unknown") is None
    assert uids(pods) == ["uid-1"]
    assert_logged("pods not refreshed")


@pytest.mark.looptime
async def test_an_api_server_that_hangs_is_not_waited_for_long(looptime):
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.DELAY, verb="list", delay_s=60))
    pods = node_pods(kube)

    assert await pods.find("uid-unknown") is None
    assert looptime <= 1.1


async def test_whether_the_pods_were_listed_is_known():
    kube = FakeKube()
    kube.faults.add(Fault(kind=FaultKind.STATUS, verb="list", code=503))
    pods = node_pods(kube)

    await pods.refresh()
    assert not pods.is_listed
    assert pods.refresh_failure == "told to fail"

    await pods.refresh()
    assert pods.is_listed
    assert pods.refresh_failure is None
