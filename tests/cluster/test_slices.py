"""One pod's slice, from kubectl to the limit in its container, on the real thing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import orjson
import pytest

from hamid.model.names import USE_INDEX
from tests.cluster.stand import stand
from tests.cluster.tenants import (
    MIB,
    REFUSED,
    TAKEN,
    assert_books_agree,
    container,
    grants,
    pod,
    results,
    running,
    taken,
    totals_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.harness import Cluster, Object
    from tests.cluster.stand import Daemon, Stand


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

    assert results(hamid, "exact", "main") == [(3000, TAKEN), (1, REFUSED)]
    assert totals_bytes(hamid, "exact", "main") == dict.fromkeys(
        (
            "cuMemGetInfo",
            "cuDeviceTotalMem",
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetMemoryInfo_v2",
        ),
        3000 * MIB,
    )


def test_a_slice_holds_to_the_byte_and_for_all_programs_of_the_container(hamid: Stand) -> None:
    limits = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}
    hamid.cluster.apply(json.dumps(pod("bytes", hamid.sim, container("main", limits))))
    hamid.cluster.wait_for_phase("bytes", "Running")

    assert taken(hamid, "bytes", 3000 * MIB + 1, 3000 * MIB, 1) == [
        (3000 * MIB + 1, REFUSED),
        (3000 * MIB, TAKEN),
        (1, REFUSED),
    ]
    # What the one before held is free again.
    assert taken(hamid, "bytes", 3000 * MIB) == [(3000 * MIB, TAKEN)]


def test_the_environment_raises_no_limit(hamid: Stand) -> None:
    forged = {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "99999m",
        "CUDA_DEVICE_MEMORY_LIMIT": "99999m",
        "HAMID_LIMITS_DIR": "/tmp",
        "HAMID_TEST_LIMITS_DIR": "/tmp",
        "HAMID_DISABLE": "1",
        "CUDA_DISABLE_CONTROL": "true",
        "LD_PRELOAD": "",
    }
    limits = {"gpu": "1", "gpumem": "500"}
    hamid.cluster.apply(
        json.dumps(pod("forger", hamid.sim, container("main", limits, "500", "1", env=forged)))
    )

    hamid.cluster.wait_for_phase("forger", "Succeeded")

    assert results(hamid, "forger", "main") == [(500, TAKEN), (1, REFUSED)]
    assert set(totals_bytes(hamid, "forger", "main").values()) == {500 * MIB}


def test_who_makes_all_cards_visible_gets_no_more_of_them(hamid: Stand) -> None:
    """By the one variable that widens what a container sees; the kubelet lets the pod's win."""
    limits, forged = {"gpu": "1", "gpumem": "500"}, {"NVIDIA_VISIBLE_DEVICES": "all"}
    seeing = pod(
        "seeing",
        hamid.sim,
        container("own", limits, "--device", "0", "500", "1", env=forged),
        container("other", limits, "--device", "1", "1", env=forged),
    )
    seeing["metadata"]["annotations"] = {USE_INDEX: "0"}
    hamid.cluster.apply(json.dumps(seeing))

    hamid.cluster.wait_for_phase("seeing", "Succeeded")

    assert results(hamid, "seeing", "own") == [(500, TAKEN), (1, REFUSED)]
    assert results(hamid, "seeing", "other") == [(1, REFUSED)]


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
        assert results(hamid, "several", name) == [(mib, TAKEN), (1, REFUSED)]
        assert set(totals_bytes(hamid, "several", name).values()) == {mib * MIB}


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
    granted = grants(hamid, of="twenty-")
    assert len(granted) == 20
    assert all(share.memory_mib == 2000 for g in granted for share in g.shares)
    by_card: dict[str, int] = {}
    for g in granted:
        by_card[g.shares[0].device_uuid] = by_card.get(g.shares[0].device_uuid, 0) + 1
    assert sorted(by_card.values()) == [10, 10]
    assert_books_agree(hamid)


def test_running_pods_outlive_restarts_of_kubelet_and_daemon(hamid: Stand) -> None:
    limits = {"gpu": "1", "gpumem": "3000"}
    hamid.cluster.apply(json.dumps(pod("stays", hamid.sim, container("main", limits))))
    before = hamid.cluster.wait_for_phase("stays", "Running")
    granted = grants(hamid, of="stays")
    leader = hamid.wait_for_leader()

    hamid.cluster.restart_kubelet()
    hamid.wait_for_slots(20)
    hamid.daemons["first"].stop()
    hamid.daemons["first"].start()
    hamid.wait_for_leader(other_than=leader)
    hamid.wait_for_slots(20)
    hamid.cluster.apply(json.dumps(pod("later", hamid.sim, container("main", limits))))
    hamid.cluster.wait_for_phase("later", "Running")

    assert_untouched(hamid, before)
    assert grants(hamid, of="stays") == granted
    assert_books_agree(hamid)
    for name in ("stays", "later"):
        assert taken(hamid, name, 3000 * MIB, 1) == [(3000 * MIB, TAKEN), (1, REFUSED)]


def assert_untouched(hamid: Stand, before: Object) -> None:
    """The same containers as before, none of them started again."""
    now = hamid.cluster.get("pod", before["metadata"]["name"])
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["status"]["phase"] == "Running"
    (then, found) = (
        [(c["name"], c["containerID"], c["restartCount"]) for c in p["status"]["containerStatuses"]]
        for p in (before, now)
    )
    assert found == then
    assert all(restarts == 0 for _, _, restarts in found)


def test_a_daemon_killed_between_allocate_and_start_comes_back_right(hamid: Stand) -> None:
    """The pod waits for a Secret between its admission and its start."""
    waits = {"name": "late", "secret": {"secretName": "late"}}
    limits = {"gpu": "1", "gpumem": "800"}
    hamid.cluster.apply(json.dumps(pod("runs", hamid.sim, container("main", limits))))
    before = hamid.cluster.wait_for_phase("runs", "Running")
    hamid.cluster.apply(
        json.dumps(pod("killed", hamid.sim, container("main", limits), volumes=[waits]))
    )
    # The kubelet has admitted it: Allocate is done.
    hamid.cluster.wait_for("pods", lambda pods: pods["killed"]["status"].get("startTime"))
    (granted,) = grants(hamid, of="killed")
    assert not granted.is_final
    leader = hamid.wait_for_leader()

    hamid.daemons["first"].kill()
    hamid.daemons["first"].start()
    hamid.wait_for_slots(20)
    hamid.cluster.kubectl("create", "secret", "generic", "late", "--from-literal=a=b")

    hamid.cluster.wait_for_phase("killed", "Running", timeout_s=180)
    hamid.wait_for_leader(other_than=leader)
    assert grants(hamid, of="killed") == [granted.finalized()]
    assert_untouched(hamid, before)
    assert_books_agree(hamid)
    for name in ("runs", "killed"):
        assert taken(hamid, name, 800 * MIB, 1) == [(800 * MIB, TAKEN), (1, REFUSED)]


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
        gap = json.dumps(pod("gap", hamid.sim, container("main", {"gpu": "1", "gpumem": "100"})))
        hamid.wait_until_admitting(gap)
        hamid.cluster.apply(gap)
        hamid.wait_for_leader(other_than=leader)
        hamid.follow_leader(not_port=20544)
        hamid.daemons["first"].start()
        hamid.cluster.wait_for_phase("gap", "Running", timeout_s=90)

        assert len(grants(hamid, of="gap")) == 1
        annotations = hamid.cluster.get("pod", "gap")["metadata"]["annotations"]
        assert orjson.loads(annotations["hamid.io/allocation"])["node"] == "node-1"
        assert (binds(second), binds(hamid.daemons["first"])) == (1, 0)
        assert_books_agree(hamid, of="second")
    finally:
        hamid.webhook.target = ("127.0.0.1", 20444)
        second.stop()
        hamid.follow_leader(not_port=20545)
        hamid.cluster.kubectl("delete", "node", "standby")


def binds(daemon: Daemon) -> int:
    """How many pods it has bound, as it says itself."""
    line = re.compile(r'^hamid_sched_binds_total{outcome="bound"} (\S+)$', re.MULTILINE)
    found = line.search(daemon.status("/metrics"))
    return int(float(found[1])) if found else 0


def test_a_pod_without_room_is_told_how_many_cards_lack_what(hamid: Stand) -> None:
    for index, limits in (("0", {"gpumem": "30000"}), ("1", {"gpumem": "1000", "gpucores": "80"})):
        holder = pod(f"holds-{index}", hamid.sim, container("main", {"gpu": "1", **limits}))
        holder["metadata"]["annotations"] = {USE_INDEX: index}
        hamid.cluster.apply(json.dumps(holder))
        hamid.cluster.wait_for_phase(f"holds-{index}", "Running")
    asked = {"gpu": "1", "gpumem": "20000", "gpucores": "30"}
    hamid.cluster.apply(json.dumps(pod("waits", hamid.sim, container("main", asked))))

    message = hamid.cluster.wait_for_event("waits", "FailedScheduling", containing="no card")
    assert "no card of 2 fits: " in message
    assert "1 lacks memory (need 20000 MiB, most free 10960 MiB)" in message
    assert "1 lacks cores (need 30 percent, most free 20 percent)" in message
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
