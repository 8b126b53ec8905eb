"""Pods that run the tenant program on simulated cards, and what it said."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from hamid.plugin.journal import decode_grant
from tests.cluster.harness import GLIBC
from tests.cluster.stand import SIM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hamid.plugin.journal import Grant
    from tests.cluster.harness import Cluster
    from tests.cluster.stand import Stand

MIB = 1024 * 1024
TAKEN, REFUSED = "CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"


class HasCluster(Protocol):
    """Where tenants run."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""


def container(
    name: str, limits: Mapping[str, str], *arguments: str, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A container that runs the tenant program, or sleeps."""
    variables = {"LD_LIBRARY_PATH": SIM, **(env or {})}
    return {
        "name": name,
        "image": GLIBC,
        "imagePullPolicy": "Never",
        "command": [f"{SIM}/alloc_mib", *arguments] if arguments else ["sleep", "1000"],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {"limits": {f"nvidia.com/{key}": value for key, value in limits.items()}},
        "volumeMounts": [{"name": "sim", "mountPath": SIM}],
    }


def pod(name: str, sim: Path, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that does not restart, with the simulated driver mounted."""
    volumes = [{"name": "sim", "hostPath": {"path": str(sim)}}, *spec.pop("volumes", [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "volumes": volumes,
            "containers": list(containers),
            **spec,
        },
    }


def said(hamid: HasCluster, name: str, container_name: str) -> list[dict[str, Any]]:
    """What the tenant program printed."""
    return _lines(hamid.cluster.kubectl("logs", name, "-c", container_name))


def results(hamid: HasCluster, name: str, container_name: str) -> list[tuple[int, str]]:
    """MiB asked for and what came of it."""
    lines = said(hamid, name, container_name)
    return [(line["mib"], line["result"]) for line in lines if line["call"] == "cuMemAlloc"]


def taken(hamid: HasCluster, name: str, *sizes: int) -> list[tuple[int, str]]:
    """What a new program in a running container gets: bytes asked for, and what came of it."""
    program = ("-c", "main", "-i", "--", f"{SIM}/alloc_mib", "--interactive")
    orders = "".join(f"bytes {size}\n" for size in sizes)
    lines = _lines(hamid.cluster.kubectl("exec", name, *program, stdin=orders))
    return [(line["bytes"], line["result"]) for line in lines if line["call"] == "cuMemAlloc"]


def _lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def totals_bytes(hamid: HasCluster, name: str, container_name: str) -> dict[str, int]:
    """What each way of asking says the card's memory is."""
    lines = said(hamid, name, container_name)
    return {line["call"]: line["total_bytes"] for line in lines if "total_bytes" in line}


def running(pods: Mapping[str, Any]) -> int:
    return sum(p["status"].get("phase") == "Running" for p in pods.values())


def grants(hamid: Stand, *, of: str = "") -> list[Grant]:
    """What the daemon has on disk, all of it or for pods whose names begin with this."""
    found = []
    for path in (hamid.state / "journal").glob("*.json"):
        with suppress(FileNotFoundError):  # of a pod that is gone, and removed this moment
            if content := path.read_bytes():  # else it is prepared for a grant to come
                found.append(decode_grant(content))
    return [grant for grant in found if grant.pod_name.startswith(of)]


def assert_books_agree(hamid: Stand, *, of: str = "first") -> None:
    """Kubelet, journal, annotations and this leader say the same of running pods; nothing twice."""
    pods = json.loads(hamid.cluster.kubectl("get", "pods", "-o", "json"))["items"]
    uids = {p["metadata"]["uid"] for p in pods if p["status"].get("phase") == "Running"}
    granted = {g.key: set(g.slot_ids) for g in grants(hamid) if g.pod_uid in uids}
    allocated = {key: slots for key, slots in _of_kubelet(hamid).items() if key[0] in uids}
    assert granted == allocated
    assert {uid for uid, _ in granted} == uids
    slots = [slot for each in granted.values() for slot in each]
    assert len(slots) == len(set(slots))
    hamid.books(of).check()


def _of_kubelet(hamid: Stand) -> dict[tuple[str, str], set[str]]:
    """The slots that the kubelet has given to each container, by UID of its pod and its name."""
    checkpoint = json.loads(hamid.cluster.node().checkpoint.read_bytes())
    return {
        (entry["PodUID"], entry["ContainerName"]): {
            slot for slots in entry["DeviceIDs"].values() for slot in slots
        }
        for entry in checkpoint["Data"]["PodDeviceEntries"] or ()
    }
