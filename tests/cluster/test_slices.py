"""One pod's slice, from kubectl to the limit in its container, on the real thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cluster.stand import stand
from tests.cluster.tenants import (
    container,
    grants,
    pod,
    results,
    running,
    totals_mib,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.harness import Cluster
    from tests.cluster.stand import Stand


@pytest.fixture(scope="module")
def hamid(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with stand(real_cluster, tmp_path_factory.mktemp("stand")) as made:
        yield made


@pytest.fixture(autouse=True)
def _clean(hamid: Stand) -> Iterator[None]:
    yield
    hamid.cluster.kubectl("delete", "deployments,pods,secrets", "--all", "--wait=true")


def test_a_slice_holds_in_its_container(hamid: Stand) -> None:
    limits = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}
    hamid.cluster.apply(json.dumps(pod("exact", hamid.sim, container("main", limits, "3000", "1"))))

    hamid.cluster.wait_for_phase("exact", "Succeeded")

    assert results(hamid, "exact", "main") == [
        (3000, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_OUT_OF_MEMORY"),
    ]
    assert totals_mib(hamid, "exact", "main") == {
        "cuMemGetInfo": 3000,
        "cuDeviceTotalMem": 3000,
        "nvmlDeviceGetMemoryInfo": 3000,
        "nvmlDeviceGetMemoryInfo_v2": 3000,
    }


def test_the_environment_raises_no_limit(hamid: Stand) -> None:
    forged = {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "99999m",
        "CUDA_DEVICE_MEMORY_LIMIT": "99999m",
        "HAMID_LIMITS_DIR": "/tmp",
        "HAMID_DISABLE": "1",
        "CUDA_DISABLE_CONTROL": "true",
        "LD_PRELOAD": "",
    }
    limits = {"gpu": "1", "gpumem": "500"}
    hamid.cluster.apply(
        json.dumps(pod("forger", hamid.sim, container("main", limits, "500", "1", env=forged)))
    )

    hamid.cluster.wait_for_phase("forger", "Succeeded")

    assert results(hamid, "forger", "main")[-1] == (1, "CUDA_ERROR_OUT_OF_MEMORY")


def test_containers_of_one_pod_have_each_their_limit(hamid: Stand) -> None:
    hamid.cluster.apply(
        json.dumps(
            pod(
                "several",
                hamid.sim,
                container("small", {"gpu": "1", "gpumem": "100"}, "100", "1"),
                container("large", {"gpu": "1", "gpumem": "700"}, "700", "1"),
                initContainers=[container("prep", {"gpu": "1", "gpumem": "300"}, "300", "1")],
            )
        )
    )

    hamid.cluster.wait_for_phase("several", "Succeeded")

    for name, mib in (("prep", 300), ("small", 100), ("large", 700)):
        assert results(hamid, "several", name) == [
            (mib, "CUDA_SUCCESS"),
            (1, "CUDA_ERROR_OUT_OF_MEMORY"),
        ]


def test_a_deployment_of_twenty_on_one_node(hamid: Stand) -> None:
    one = pod("x", hamid.sim, container("main", {"gpu": "1", "gpumem": "2000", "gpucores": "10"}))
    del one["spec"]["restartPolicy"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "twenty"},
        "spec": {
            "replicas": 20,
            "selector": {"matchLabels": {"app": "twenty"}},
            "template": {"metadata": {"labels": {"app": "twenty"}}, "spec": one["spec"]},
        },
    }

    hamid.cluster.apply(json.dumps(deployment))

    hamid.cluster.wait_for("pods", lambda pods: running(pods) == 20, timeout_s=90)
    granted = grants(hamid)
    assert len(granted) == 20
    assert all(share.memory_mib == 2000 for g in granted for share in g.shares)
    by_card: dict[str, int] = {}
    for g in granted:
        by_card[g.shares[0].device_uuid] = by_card.get(g.shares[0].device_uuid, 0) + 1
    assert sorted(by_card.values()) == [10, 10]


def test_running_pods_outlive_restarts_of_kubelet_and_daemon(hamid: Stand) -> None:
    limits = {"gpu": "1", "gpumem": "3000"}
    hamid.cluster.apply(json.dumps(pod("stays", hamid.sim, container("main", limits))))
    before = hamid.cluster.wait_for_phase("stays", "Running")

    hamid.cluster.restart_kubelet()
    hamid.wait_for_slots(20)
    hamid.daemons["first"].stop()
    hamid.daemons["first"].start()
    hamid.wait_for_leader()
    hamid.wait_for_slots(20)
    hamid.cluster.apply(json.dumps(pod("later", hamid.sim, container("main", limits, "3000", "1"))))
    hamid.cluster.wait_for_phase("later", "Succeeded")

    after = hamid.cluster.get("pod", "stays")
    assert after["status"]["phase"] == "Running"
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert {g.pod_name for g in grants(hamid)} >= {"stays"}
    assert results(hamid, "later", "main")[-1] == (1, "CUDA_ERROR_OUT_OF_MEMORY")


def test_a_daemon_killed_between_allocate_and_start_comes_back_right(hamid: Stand) -> None:
    """The pod waits for a Secret between its admission and its start."""
    waits = {"name": "late", "secret": {"secretName": "late"}}
    limits = {"gpu": "1", "gpumem": "800"}
    hamid.cluster.apply(
        json.dumps(pod("killed", hamid.sim, container("main", limits, "800", "1"), volumes=[waits]))
    )
    # The kubelet has admitted it: Allocate is done.
    hamid.cluster.wait_for("pods", lambda pods: pods["killed"]["status"].get("startTime"))
    assert [g.pod_name for g in grants(hamid)].count("killed") == 1

    hamid.daemons["first"].kill()
    hamid.daemons["first"].start()
    hamid.wait_for_slots(20)
    hamid.cluster.kubectl("create", "secret", "generic", "late", "--from-literal=a=b")

    hamid.cluster.wait_for_phase("killed", "Succeeded", timeout_s=180)
    assert results(hamid, "killed", "main") == [
        (800, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_OUT_OF_MEMORY"),
    ]
    assert [g.pod_name for g in grants(hamid)].count("killed") == 1


def test_a_pod_of_the_gap_between_two_leaders_is_bound_once(hamid: Stand) -> None:
    hamid.cluster.apply(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": "standby",
                    "labels": {"node-restriction.kubernetes.io/hamid-leader": "true"},
                },
            }
        )
    )
    second = hamid.daemons.get("second") or hamid.add_daemon(
        "second", "standby", number=2, has_plugin=False
    )
    leader = hamid.wait_for_leader()
    second.start()
    hamid.wait_for_standby("standby")
    hamid.webhook.target = ("127.0.0.1", 20445)
    try:
        hamid.daemons["first"].kill()
        hamid.cluster.apply(
            json.dumps(pod("gap", hamid.sim, container("main", {"gpu": "1", "gpumem": "100"})))
        )
        hamid.wait_for_leader(other_than=leader)
        hamid.follow_leader(not_port=20544)
        hamid.daemons["first"].start()
        hamid.cluster.wait_for_phase("gap", "Running", timeout_s=90)

        assert [g.pod_name for g in grants(hamid)].count("gap") == 1
        annotations = hamid.cluster.get("pod", "gap")["metadata"]["annotations"]
        assert orjson.loads(annotations["hamid.io/allocation"])["node"] == "node-1"
    finally:
        hamid.webhook.target = ("127.0.0.1", 20444)
        second.stop()
        hamid.follow_leader(not_port=20545)
        hamid.cluster.kubectl("delete", "node", "standby")


def test_a_pod_without_room_is_told_how_many_cards_lack_what(hamid: Stand) -> None:
    hamid.cluster.apply(
        json.dumps(pod("holds", hamid.sim, container("main", {"gpu": "2", "gpumem": "30000"})))
    )
    hamid.cluster.wait_for_phase("holds", "Running")

    hamid.cluster.apply(
        json.dumps(pod("waits", hamid.sim, container("main", {"gpu": "1", "gpumem": "20000"})))
    )

    message = hamid.cluster.wait_for_event("waits", "FailedScheduling")
    assert "no card of 2 fits: 2 lack memory (need 20000 MiB, most free 10960 MiB)" in message
    assert hamid.cluster.get("pod", "waits")["status"]["phase"] == "Pending"


def test_an_amount_that_cannot_be_meant_is_refused_in_words(hamid: Stand) -> None:
    done = hamid.cluster.try_kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(pod("odd", hamid.sim, container("main", {"gpu": "1", "gpumem": "3Ki"}))),
    )

    assert done.returncode != 0
    assert "main" in done.stderr
    assert "nvidia.com/gpumem" in done.stderr
    assert "3Ki" in done.stderr
