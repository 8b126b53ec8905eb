"""What cluster autoscalers find: kube-scheduler's own check of resources, which they run as a library.

A kube-scheduler without any extender stands for one: it tries pods, as they come from the webhook, on
the nodes that there are and on one made after the pattern of another. The nodes are objects; what
they state is written with the rights that the chart gives the daemon of that node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.scenarios import registered
from hamid.aiokit.backoff import Backoff
from hamid.kube.client import KubeClient
from hamid.kube.errors import Forbidden
from hamid.kube.port import NODES, PatchKind
from hamid.kube.settings import KubeSettings
from hamid.model.names import NODE_AMOUNTS, SCHEDULER_NAME
from hamid.plugin.amounts import stated_amounts
from hamid.plugin.amounts_writer import AmountsWriter
from tests.cluster.fleet import RESOURCES, fleet_node, gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster
from tests.cluster.rawapi import patch_call
from tests.deploy.rendering import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from tests.cluster.fleet import Fleet

PORT = 19343
NODE = "gpu-a"
AMOUNTS = RESOURCES.all()[1:]
SIMULATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "KUBECONFIG"},
    "leaderElection": {"leaderElect": False},
    "profiles": [{"schedulerName": SCHEDULER_NAME}],
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def whole_fleet() -> Iterator[Fleet]:
    chart = ("devicePlugin.advertiseAmounts=true",)
    with (
        skipped_without_cluster(),
        running_fleet(
            nodes=0, port=PORT, has_webhook=True, chart=chart, heartbeat_s=0, has_scheduler=False
        ) as made,
    ):
        made.start_scheduler(SIMULATION)
        yield made


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """One node of eight cards, whose status states its slots alone, and no pods."""
    whole_fleet.create_nodes([NODE])
    yield whole_fleet
    whole_fleet.clear_pods()
    whole_fleet.cluster.kubectl("delete", "node", NODE, "gpu-b", "--ignore-not-found")


def daemon_kube(fleet: Fleet) -> AbstractAsyncContextManager[KubeClient]:
    """The API server, with the rights of the daemon on the node."""
    path = fleet.cluster.token_kubeconfig("hamid", namespace=NAMESPACE, node=NODE)
    return KubeClient.open(KubeSettings(kubeconfig=path))


def daemon_writes(fleet: Fleet, *, is_on: bool = True) -> dict[str, Any]:
    """The node, once the daemon there has written what it has to, and found it as it wrote it."""

    async def write() -> dict[str, Any]:
        async with daemon_kube(fleet) as kube:
            writer = AmountsWriter(
                kube=kube, node_name=NODE, names=RESOURCES, is_on=is_on, backoff=Backoff()
            )
            writer.want(stated_amounts(registered(NODE), ()))
            writer.replace((await kube.get(NODES, NODE),))
            await writer.step()
            found = await kube.get(NODES, NODE)
            writer.replace((found,))
            assert writer.news.get().found == writer.news.get().wanted
            return found

    return asyncio.run(write())


def refusal(fleet: Fleet, name: str) -> str:
    """Why the pod found no room, as soon as it was tried."""

    def said(pods: Any) -> str:
        conditions = pods.get(name, {}).get("status", {}).get("conditions") or ()
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    return fleet.cluster.wait_for("pods", said)


def test_hami_1099_room_is_found_where_the_sums_are_stated_until_they_are_used_up(fleet):
    """Without them an autoscaler finds no node that would do, however many it thinks of."""
    (first,) = fleet.create_pods([gpu_pod("first", memory_mib=80_000, cores=30)])
    before = refusal(fleet, first)

    node = daemon_writes(fleet)
    fleet.watch.wait_bound([first])
    others = fleet.create_pods(gpu_pod(f"p{n}", memory_mib=80_000, cores=30) for n in range(7))
    fleet.watch.wait_bound(others)
    (ninth,) = fleet.create_pods([gpu_pod("ninth", memory_mib=80_000, cores=30)])
    after = refusal(fleet, ninth)

    assert "Insufficient nvidia.com/gpumem" in before
    assert "Insufficient nvidia.com/gpucores" in before
    assert "1 Insufficient nvidia.com/gpu," in after, "of the control node alone"
    assert "2 Insufficient nvidia.com/gpumem" in after
    # What it does next: it thinks of a node like those of the group, and finds that it would do.
    pattern = fleet_node("gpu-b", is_registered=True, slots=10)
    pattern["status"] |= {part: node["status"][part] for part in ("capacity", "allocatable")}
    fleet.api.call("POST", "/api/v1/nodes", pattern)
    fleet.api.call_all([patch_call("/api/v1/nodes/gpu-b", {"spec": {"taints": None}})])
    fleet.watch.wait_bound([ninth])
    assert fleet.watch.pods[ninth]["spec"]["nodeName"] == "gpu-b"


@pytest.mark.parametrize(
    ("fields", "count", "short_of"),
    [
        pytest.param({"memory_mib": None}, 8, "gpucores", id="whole cards"),
        pytest.param({"memory_mib": "40Gi"}, 16, "gpumem", id="memory in bytes"),
    ],
)
def test_so_many_pods_find_room_as_the_cards_have(fleet, fields, count, short_of):
    daemon_writes(fleet)

    fleet.watch.wait_bound(
        fleet.create_pods(gpu_pod(f"p{number}", **fields) for number in range(count))
    )
    (beyond,) = fleet.create_pods([gpu_pod("beyond", **fields)])

    assert f"Insufficient nvidia.com/{short_of}" in refusal(fleet, beyond)


def test_hamids_own_kube_scheduler_goes_by_the_books_and_not_by_the_sums(fleet):
    nothing = {
        "status": {part: dict.fromkeys(AMOUNTS, "0") for part in ("capacity", "allocatable")}
    }
    fleet.api.call_all([patch_call(f"/api/v1/nodes/{NODE}/status", nothing)])
    fleet.start_scheduler()
    try:
        names = fleet.create_pods([gpu_pod("here", memory_mib=3_000, cores=30)])
        fleet.watch.wait_bound(names)
    finally:
        fleet.start_scheduler(SIMULATION)


def test_turned_off_the_sums_are_taken_away_and_the_rest_is_left(fleet):
    before = daemon_writes(fleet)

    after = daemon_writes(fleet, is_on=False)

    assert before["status"]["capacity"].keys() - after["status"]["capacity"].keys() == {*AMOUNTS}
    assert before["status"]["allocatable"].keys() == before["status"]["capacity"].keys()
    assert after["status"]["allocatable"].keys() == after["status"]["capacity"].keys()
    assert NODE_AMOUNTS in before["metadata"]["annotations"]
    assert NODE_AMOUNTS not in after["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("node", "change", "said"),
    [
        ("gpu-b", {"capacity": {"nvidia.com/gpumem": "1"}}, f'node "{NODE}" may not write node'),
        (NODE, {"capacity": {"nvidia.com/gpu": "9"}}, "nothing in a node's status but the sums"),
        (NODE, {"allocatable": {"cpu": "9"}}, "nothing in a node's status but the sums"),
        (NODE, {"capacity": {"cpu": None}}, "nothing in a node's status but the sums"),
        (NODE, {"conditions": None}, "nothing in a node's status but the sums"),
        (NODE, {"addresses": []}, "nothing in a node's status but the sums"),
        (NODE, {"volumesInUse": ["a"]}, "nothing in a node's status but the sums"),
        (NODE, {}, "nothing but annotations"),
    ],
)
def test_a_replica_states_nothing_else_in_a_status_and_none_of_another_node(
    fleet, node, change, said
):
    fleet.create_nodes(["gpu-b"])
    daemon_writes(fleet)
    patch = {"status": change} if change else {"metadata": {"labels": {"a": "b"}}}

    async def write() -> None:
        async with daemon_kube(fleet) as kube:
            await kube.patch(NODES, node, patch, kind=PatchKind.MERGE, subresource="status")

    with pytest.raises(Forbidden, match=said):
        asyncio.run(write())


def test_the_api_server_finds_nothing_wrong_with_the_policy_of_statuses(fleet):
    def checked(policies: Any) -> Any:
        return policies["hamid-own-node"].get("status", {}).get("typeChecking")

    found = fleet.cluster.wait_for(
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        lambda policies: (checked(policies),) if checked(policies) is not None else None,
        namespace=None,
    )

    assert found == ({},)
