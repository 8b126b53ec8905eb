"""How long 50 pods take on one real node, from create to all Running, and how much of it is ours.

API server, kube-scheduler, kubelet and containerd are real; hamid is installed by its chart, its
daemon a process of this machine, on simulated cards. The same pods without a card are the measure:
what they take is not ours.

Where this machine runs no cluster, it says why and ends with 3.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.bench_footprint import cpu_s
from benchmarks.report import asked, emit, say
from benchmarks.stand import BenchmarkFailed
from hamid.model.names import SCHEDULER_NAME
from tests.cluster.harness import GLIBC, ClusterUnavailable, running_cluster
from tests.cluster.stand import stand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.harness import Cluster
    from tests.cluster.stand import Daemon, Stand

BENCH: Final = "burst"
CARDS: Final = 8
CANNOT: Final = 3
DEADLINE_S: Final = 300
REST_S: Final = 30
"""Between bursts: what a burst leaves behind would slow the next one."""
OURS: Final = {
    "webhook": ("hamid_web_request_seconds", {"site": "webhook"}),
    "filter": ("hamid_sched_call_seconds", {"verb": "filter"}),
    "prioritize": ("hamid_sched_call_seconds", {"verb": "prioritize"}),
    "bind": ("hamid_sched_call_seconds", {"verb": "bind"}),
    "preferred": ("hamid_kubelet_call_seconds", {"call": "GetPreferredAllocation"}),
    "allocate": ("hamid_kubelet_call_seconds", {"call": "Allocate"}),
    "pre-start": ("hamid_kubelet_call_seconds", {"call": "PreStartContainer"}),
}
"""Where our code is in a pod's way, and what the daemon says of the time it spent there."""

Histogram = tuple[float, float]
"""Sum in seconds, and count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """How a burst went: all of it, and each pod, in seconds since the create."""

    total_s: float
    running_s: tuple[float, ...]


def main(pods: int) -> None:
    """Measure on a cluster of its own."""
    with running_cluster(nodes=1) as cluster:
        measure(cluster, pods, rest_s=REST_S)


def measure(cluster: Cluster, pods: int, *, rest_s: float) -> None:
    """Measure without cards, then with."""
    with (
        tempfile.TemporaryDirectory(prefix="hamid-burst-") as root,
        stand(cluster, Path(root), count=CARDS) as made,
    ):
        say(f"{BENCH}: {pods} pods without a card")
        plain = _burst(cluster, "plain", pods, limits={})
        time.sleep(rest_s)
        say(f"{BENCH}: {pods} pods with a slice each")
        daemon = made.daemons["first"]
        before, before_cpu_s = _figures(daemon), _cpu_s(daemon)
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "5"}
        sliced = _burst(cluster, "sliced", pods, limits=limits)
        after, used_s = _figures(daemon), _cpu_s(daemon) - before_cpu_s
        _check(made, pods)
    _report(pods, sliced, plain)
    _report_ours(sliced, before, after)
    emit(BENCH, "daemon_cpu_per_pod", unit="s", value=used_s / pods)


def _burst(cluster: Cluster, name: str, pods: int, *, limits: Mapping[str, str]) -> Burst:
    """Create the pods, wait until all run, and delete them, down to the last container."""
    begun = time.perf_counter()
    cluster.apply(json.dumps(_deployment(name, pods, limits)))
    seen: dict[str, float] = {}

    def all_run(found: Mapping[str, Any]) -> bool:
        now = time.perf_counter() - begun
        for pod_name, pod in found.items():
            if pod["status"].get("phase") == "Running":
                seen.setdefault(pod_name, now)
        return len(seen) == pods

    cluster.wait_for("pods", all_run, selector=f"app={name}", timeout_s=DEADLINE_S)
    total_s = time.perf_counter() - begun
    cluster.kubectl("delete", "deployment", name, "--wait=true", "--cascade=foreground")
    return Burst(total_s=total_s, running_s=tuple(seen.values()))


def _deployment(name: str, pods: int, limits: Mapping[str, str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": GLIBC,
        "imagePullPolicy": "Never",
        "command": ["sleep", "1000"],
        "resources": {"limits": limits},
    }
    spec = {
        "schedulerName": SCHEDULER_NAME,
        # Not 0: then the API server forgets a pod before the kubelet has cleaned up after it.
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _check(made: Stand, pods: int) -> None:
    """See that hamid had a hand in it: one grant a pod."""
    count = _figures(made.daemons["first"])["allocate"][1]
    if count < pods:
        raise BenchmarkFailed(f"the kubelet called Allocate {count} times for {pods} pods")


def _figures(daemon: Daemon) -> dict[str, Histogram]:
    """What the daemon says of its time so far."""
    families = text_string_to_metric_families(daemon.status("/metrics"))
    samples = [sample for family in families for sample in family.samples]

    def total(name: str, labels: Mapping[str, str]) -> float:
        return sum(
            s.value for s in samples if s.name == name and labels.items() <= s.labels.items()
        )

    return {
        part: (total(f"{name}_sum", labels), total(f"{name}_count", labels))
        for part, (name, labels) in OURS.items()
    }


def _cpu_s(daemon: Daemon) -> float:
    if daemon.process is None:
        raise BenchmarkFailed("the daemon does not run")
    return cpu_s(daemon.process.pid)


def _report(pods: int, sliced: Burst, plain: Burst) -> None:
    for case, burst in (("all_running", sliced), ("all_running/no-gpu", plain)):
        emit(BENCH, f"{case}/{pods}-pods", unit="s", value=burst.total_s, samples=burst.running_s)


def _report_ours(
    burst: Burst, before: Mapping[str, Histogram], after: Mapping[str, Histogram]
) -> None:
    """How much of a pod's way is ours: calls of several pods overlap, so their sum says little."""
    pods = len(burst.running_s)
    spent = {part: (after[part][0] - before[part][0]) / pods for part in OURS}
    way_s = sum(burst.running_s) / pods
    ours_s = sum(spent.values())
    emit(BENCH, "own_code_share", unit="% of a pod's way", value=100 * ours_s / way_s)
    admitting_s = pods * (spent["preferred"] + spent["allocate"])
    emit(
        BENCH,
        "own_code_share/admission",
        unit="% of all_running",
        value=100 * admitting_s / burst.total_s,
    )
    emit(BENCH, "own_code_per_pod", unit="s", value=ours_s)
    for part, seconds in spent.items():
        emit(BENCH, f"own_code_per_pod/{part}", unit="s", value=seconds)
        count = (after[part][1] - before[part][1]) / pods
        emit(BENCH, f"calls_per_pod/{part}", unit="calls", value=count)


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    try:
        main(3 if is_smallest else 50)
    except ClusterUnavailable as why:
        say(f"no burst on this machine: {why}")
        sys.exit(CANNOT)
