"""Quotas on the real API server, with the real kube-scheduler: who counts what, and who waits."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet
    from tests.cluster.harness import Object

PORT = 22443
SOON_S = (
    20.0  # far from the next flush, which comes after five minutes; bench-wakeup has the figure
)
MEMORY, CARDS = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpu"


@pytest.fixture(scope="module")
def whole_fleet() -> Iterator[Fleet]:
    """Two nodes of eight cards; pods pass the webhook."""
    with skipped_without_cluster(), running_fleet(nodes=2, port=PORT, has_webhook=True) as made:
        yield made


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """Without pods and quotas before and after."""
    yield whole_fleet
    whole_fleet.cluster.kubectl("delete", "resourcequota", "--all")
    whole_fleet.clear_pods()


def set_quota(fleet: Fleet, hard: dict[str, int], *, name: str = "cards", **spec: object) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": {key: str(value) for key, value in hard.items()}, **spec},
    }
    fleet.cluster.apply(json.dumps(quota))
    assert wait_known(fleet, name, hard)
    # Until the controller has counted once, the API server refuses whatever is to be counted.
    fleet.cluster.wait_for(
        "resourcequotas",
        lambda found: found[name].get("status", {}).get("hard") == found[name]["spec"]["hard"],
    )


def wait_known(fleet: Fleet, name: str, hard: dict[str, int]) -> bool:
    """Until the leader's watch has shown it."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for found in fleet.leader().page("cache")["quotas"]:
            limits = {limit["key"]: limit["hard"] for limit in found["quota"]["limits"]}
            if found["quota"]["name"] == name and limits.items() <= hard.items():
                return True
    return False


def refusal_of(fleet: Fleet, name: str) -> str:
    """What kube-scheduler says of the pod, once it does."""

    def said() -> str:
        conditions = fleet.watch.pods.get(name, {}).get("status", {}).get("conditions", ())
        return next((c["message"] for c in conditions if c.get("status") == "False"), "")

    assert fleet.watch.wait_for(said)
    return said()


def admission_says(fleet: Fleet, pod: Object, words: str) -> bool:
    """Whether the webhook, which looks once a second, comes to refuse the pod with these words."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        done = fleet.cluster.try_kubectl("create", "-f", "-", stdin=json.dumps(pod))
        if done.returncode:
            return words in done.stderr
        name = pod["metadata"]["name"]
        fleet.cluster.kubectl("delete", "pod", name, "--now")
        fleet.watch.forget([name])
    return False


def test_a_pod_waits_for_its_quota_with_numbers_and_goes_when_it_is_raised(fleet: Fleet):
    set_quota(fleet, {MEMORY: 4_096, "limits.nvidia.com/gpucores": 50})
    fleet.create_pods([gpu_pod("two", count=2, memory_mib=2_048, cores=20)])
    fleet.watch.wait_bound(["two"])
    fleet.create_pods([gpu_pod("one", memory_mib=1, cores=10)])

    assert (
        f"quota of namespace default: {MEMORY} in ResourceQuota cards allows 4096 MiB of card "
        "memory, 4096 used, 1 asked" in refusal_of(fleet, "one")
    )

    raised_at_s = time.monotonic()
    set_quota(fleet, {MEMORY: 4_097})
    assert fleet.watch.wait_bound(["one"], timeout_s=60) - raised_at_s < SOON_S


def test_a_pod_that_waits_for_its_quota_goes_when_another_is_gone(fleet: Fleet):
    set_quota(fleet, {CARDS: 1})
    fleet.create_pods([gpu_pod("first")])
    fleet.watch.wait_bound(["first"])
    fleet.create_pods([gpu_pod("second")])
    assert "allows 1 cards, 1 used, 1 asked" in refusal_of(fleet, "second")

    gone_at_s = time.monotonic()
    fleet.delete_pods(["first"])

    assert fleet.watch.wait_bound(["second"], timeout_s=60) - gone_at_s < SOON_S
    fleet.books().check()


def test_many_at_once_never_pass_a_quota(fleet: Fleet):
    set_quota(fleet, {CARDS: 7})

    fleet.create_pods(gpu_pod(f"many-{n}") for n in range(20))
    for n in range(20):
        assert fleet.watch.wait_for(
            lambda name=f"many-{n}": (
                name in fleet.watch.bound_at_s
                or fleet.watch.pods.get(name, {}).get("status", {}).get("conditions")
            )
        )

    assert sum("nodeName" in pod["spec"] for pod in fleet.watch.pods.values()) == 7


def test_the_api_server_counts_requests_when_pods_are_created_and_nobody_counts_twice(
    fleet: Fleet,
):
    """Waiting pods are counted by the API server's keys, but not by ours."""
    set_quota(fleet, {"requests.nvidia.com/gpu": 2, CARDS: 1})
    fleet.create_pods([gpu_pod("first")])
    fleet.watch.wait_bound(["first"])
    fleet.create_pods([gpu_pod("second")])
    assert "allows 1 cards, 1 used, 1 asked" in refusal_of(fleet, "second")

    third = fleet.cluster.try_kubectl("create", "-f", "-", stdin=json.dumps(gpu_pod("third")))
    assert "exceeded quota: cards, requested: requests.nvidia.com/gpu=1" in third.stderr
    used = fleet.cluster.get("resourcequota", "cards")["status"]["used"]
    assert used == {"requests.nvidia.com/gpu": "2"}

    fleet.delete_pods(["first"])
    fleet.watch.wait_bound(["second"], timeout_s=60)


def test_a_pod_that_could_never_run_is_refused_when_it_is_created(fleet: Fleet):
    set_quota(fleet, {MEMORY: 4_096})

    big = gpu_pod("big", count=2, memory_mib=2_049)

    said = f"the pod asks for 4098 MiB of card memory in all, but {MEMORY}"
    assert admission_says(fleet, big, said)


@pytest.mark.parametrize(
    ("hard", "spec", "said"),
    [
        ("1500m", {}, "must be an integer"),
        ("-1", {}, "must be greater than or equal to 0"),
        ("1", {"scopes": ["Bogus"]}, "unsupported scope"),
    ],
)
def test_the_api_server_refuses_what_is_no_amount_and_no_scope(fleet: Fleet, hard, spec, said):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "bad"},
        "spec": {"hard": {MEMORY: hard}, **spec},
    }

    done = fleet.cluster.try_kubectl("create", "-f", "-", stdin=json.dumps(quota))

    assert said in done.stderr


def test_scopes_bind_whom_they_say(fleet: Fleet):
    set_quota(fleet, {CARDS: 0}, scopes=["Terminating"])

    fleet.create_pods([gpu_pod("long")])
    fleet.watch.wait_bound(["long"])
    short = gpu_pod("short", activeDeadlineSeconds=60)
    assert admission_says(fleet, short, "so that it would never run")
