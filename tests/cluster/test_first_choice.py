"""Where kube-scheduler sees every node that fits, its own scores do not turn ours around.

By default it sees the best one alone, and has nothing to weigh.
"""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet
    from tests.cluster.rawapi import Object

NODES, PODS = 12, 60
HOSTNAME = "kubernetes.io/hostname"
LABELS = {"app": "drawn"}
SETTINGS = {"sched": {"offered_count": 0}, "log": {"level": "debug"}}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with (
        skipped_without_cluster(),
        running_fleet(nodes=NODES, port=19143, settings=SETTINGS) as made,
    ):
        yield made


def drawn_elsewhere(name: str, rng: random.Random) -> Object:
    """A pod for which plugins of kube-scheduler give their highest scores to some other node."""
    node = f"gpu-{rng.randrange(NODES):04}"
    expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
    wish = {"weight": 100, "preference": {"matchExpressions": [expression]}}
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": LABELS},
    }
    pod = gpu_pod(
        name,
        count=rng.choice((1, 1, 2)),
        memory_mib=rng.choice((1000, 8000, 20_000)),
        cpu=rng.choice(("100m", "8")),
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}},
        topologySpreadConstraints=[spread],
    )
    pod["metadata"]["labels"] = LABELS
    return pod


def first_choices(log: str) -> dict[str, str]:
    """Pod → the node that the leader chose when it was asked last."""
    lines = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return {line["pod"]: line["node"] for line in lines if line["event"] == "pod filtered"}


def test_the_node_that_is_bound_is_the_leaders_first_choice_for_every_pod(fleet: Fleet):
    rng = random.Random(7)
    names = fleet.create_pods(drawn_elsewhere(f"drawn-{n}", rng) for n in range(PODS))

    fleet.watch.wait_bound(names, timeout_s=90)

    bound = {f"default/{name}": fleet.watch.pods[name]["spec"]["nodeName"] for name in names}
    chosen = first_choices(fleet.replicas["1"].log())
    assert {pod: chosen[pod] for pod in bound} == bound
    # kube-scheduler asks for scores only where it sees several nodes.
    text = fleet.replicas["1"].daemon.status("/metrics")
    asked = re.search(
        r'^hamid_sched_call_seconds_count\{verb="prioritize"\} (\S+)', text, re.MULTILINE
    )
    assert asked
    assert float(asked[1]) >= PODS
    fleet.books().check()
