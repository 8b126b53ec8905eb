"""Pods on simulated nodes: the real kube-scheduler with our extender on the real API server.

Fifty nodes of eight cards, or with HAMID_LONG=1 a thousand. After each run the annotations are
summed up and compared with the leader's books.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.fleet import RESOURCES, gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet
    from tests.cluster.rawapi import Object

IS_LONG = os.environ.get("HAMID_LONG") == "1"  # noqa: TID251 - whoever runs the tests says so
NODES = 1000 if IS_LONG else 50
PODS = 1000 if IS_LONG else 60
# So that a killed leader is missed after seconds; the proportions are the default's.
LEASE = {"lease": {"lease_duration_s": 6.0, "renew_deadline_s": 4.0, "retry_period_s": 1.0}}
PATIENCE_S = 600 if IS_LONG else 90

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if IS_LONG else 240)]


@pytest.fixture(scope="module")
def whole_fleet() -> Iterator[Fleet]:
    with skipped_without_cluster(), running_fleet(nodes=NODES, port=18843, settings=LEASE) as made:
        yield made


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """The nodes, with no pod on them; afterwards nobody holds anything."""
    yield whole_fleet
    whole_fleet.clear_pods()
    books = whole_fleet.books()
    books.check()
    assert books.pods == 0
    assert set(books.led.values()) == {(0, 0, 0)}


def shaped(name: str, rng: random.Random) -> Object:
    """A pod of one of the shapes that pods have."""
    pod = gpu_pod(
        name,
        count=rng.choice((1, 1, 1, 2, 4, 7)),  # with a sidecar, no more than a node has
        memory_mib=rng.choice((1000, 8000, 30_000, None)),
        cores=rng.choice((None, 10, 50, 100)),
    )
    main = pod["spec"]["containers"][0]
    if rng.random() < 0.2:
        pod["spec"]["initContainers"] = [container_of("first", memory_mib=12_000)]
    if rng.random() < 0.2:
        pod["spec"].setdefault("initContainers", []).append(
            {**container_of("beside", memory_mib=500), "restartPolicy": "Always"}
        )
    if rng.random() < 0.2:
        pod["spec"]["containers"] = [{"name": "proxy", "image": "localhost/none:1"}, main]
    return pod


def container_of(name: str, *, memory_mib: int) -> dict[str, Any]:
    amounts = {RESOURCES.count: "1", RESOURCES.memory: str(memory_mib)}
    resources = {"limits": amounts, "requests": amounts}
    return {"name": name, "image": "localhost/none:1", "resources": resources}


def test_a_burst_is_placed_as_the_books_say(fleet):
    names = fleet.create_pods(gpu_pod(f"burst-{number}") for number in range(PODS))

    fleet.watch.wait_bound(names, timeout_s=PATIENCE_S)
    books = fleet.books()

    books.check()
    assert books.pods == len(names)
    assert all(len(nodes) == 1 for nodes in fleet.watch.nodes_of.values())


def test_mixed_shapes_come_and_go_as_the_books_say(fleet):
    rng = random.Random(42)
    here: list[str] = []
    for wave in range(3):
        new = fleet.create_pods(shaped(f"mixed-{wave}-{n}", rng) for n in range(PODS // 3))
        gone = rng.sample(here, len(here) // 2)
        fleet.delete_pods(gone)
        fleet.watch.wait_bound(new, timeout_s=PATIENCE_S)
        here = [name for name in here + new if name not in gone]
        fleet.report_running(rng.sample(new, len(new) // 2))

        books = fleet.books()

        books.check()
        assert books.pods == len(here)


def test_pods_that_are_deleted_on_their_way_leave_nothing_behind(fleet):
    names = fleet.create_pods(gpu_pod(f"brief-{number}") for number in range(PODS))
    fleet.delete_pods(names)
    fleet.watch.wait_gone(names)

    # One comes through once kube-scheduler is done with those.
    (last,) = fleet.create_pods([gpu_pod("last")])
    fleet.watch.wait_bound([last], timeout_s=PATIENCE_S)
    books = fleet.books()

    books.check()
    assert books.pods == 1


def test_what_does_not_fit_waits_and_takes_no_room(fleet):
    fitting = fleet.create_pods(gpu_pod(f"fits-{n}", count=8, memory_mib=None) for n in range(5))
    asked_mib = (
        10 * fleet.replicas["1"].page("cache")["nodes"][-1]["usages"][0]["device"]["memory_mib"]
    )
    waiting = fleet.create_pods([gpu_pod("too-large", memory_mib=asked_mib)])

    fleet.watch.wait_bound(fitting, timeout_s=PATIENCE_S)
    assert fleet.watch.wait_for(
        lambda: "MiB" in refusal_of(fleet, "too-large"), timeout_s=PATIENCE_S
    )
    books = fleet.books()

    books.check()
    assert books.pods == len(fitting)
    assert waiting[0] not in fleet.watch.bound_at_s


def refusal_of(fleet: Fleet, name: str) -> str:
    conditions = fleet.watch.pods.get(name, {}).get("status", {}).get("conditions", ())
    return " ".join(condition.get("message", "") for condition in conditions)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_daemon_that_restarts_amid_a_burst_places_the_rest(fleet, is_killed):
    """What it had decided and not yet bound is decided anew; nothing is counted twice."""
    leader = fleet.replicas["1"]
    names = fleet.create_pods(gpu_pod(f"amid-{number}", count=2) for number in range(PODS))
    fleet.watch.wait_for(lambda: fleet.watch.bound_at_s.keys() & set(names))

    leader.kill() if is_killed else leader.stop()
    leader.start()
    fleet.watch.wait_bound(names, timeout_s=PATIENCE_S)
    books = fleet.books()

    books.check()
    assert books.pods == len(names)
    assert set(Counter(map(len, fleet.watch.nodes_of.values()))) == {1}


def test_deletions_that_no_leader_saw_are_healed_by_the_list(fleet):
    """Of field report d 12: eight whole cards are free again though nobody was told of it."""
    leader = fleet.replicas["1"]
    whole = [gpu_pod(f"whole-{n}", count=8, memory_mib=None) for n in range(NODES)]
    names = fleet.create_pods(whole[:PODS])
    fleet.watch.wait_bound(names[: min(NODES, PODS)], timeout_s=PATIENCE_S)

    leader.freeze()
    fleet.delete_pods(names)
    fleet.watch.wait_gone(names)
    leader.kill()
    leader.start()
    (again,) = fleet.create_pods([gpu_pod("again", count=8, memory_mib=None)])

    fleet.watch.wait_bound([again], timeout_s=PATIENCE_S)
    books = fleet.books()
    books.check()
    assert books.pods == 1
