"""Pods of high priority and the real kube-scheduler: do they get cards that others hold?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.fleet import gpu_pod
from tests.cluster.one_card import CARD_MIB, one_card_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.fleet import Fleet

PORT = 22443
NODES = 3


@pytest.fixture(scope="module")
def whole_fleet() -> Iterator[Fleet]:
    with one_card_fleet(nodes=NODES, port=PORT) as made:
        made.create_priority_class("high", 1000)
        made.create_priority_class("middle", 500)
        made.create_priority_class("patient", 1000, "--preemption-policy=Never")
        yield made


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """The same, empty at the beginning."""
    yield whole_fleet
    whole_fleet.books().check()
    whole_fleet.clear_pods()


def pod(name: str, *, memory_mib: int = CARD_MIB, grace_s: int = 0, **spec: Any) -> dict[str, Any]:
    return gpu_pod(name, memory_mib=memory_mib, terminationGracePeriodSeconds=grace_s, **spec)


def fill(fleet: Fleet, *pods: dict[str, Any]) -> list[str]:
    """Create these one after another, each bound before the next comes."""
    names = []
    for each in pods:
        names += fleet.create_pods([each])
        fleet.watch.wait_bound(names)
    return names


def create(fleet: Fleet, name: str, **options: Any) -> None:
    fleet.create_pods([pod(name, **options)])


def wait(fleet: Fleet, is_true: Callable[[], bool], *, timeout_s: float = 20) -> None:
    assert fleet.watch.wait_for(is_true, timeout_s=timeout_s), fleet.replicas["1"].log()[-3000:]


def never(fleet: Fleet, is_true: Callable[[], bool], *, for_s: float = 4) -> None:
    assert not fleet.watch.wait_for(is_true, timeout_s=for_s), fleet.replicas["1"].log()[-3000:]


def is_bound(fleet: Fleet, name: str) -> bool:
    return name in fleet.watch.bound_at_s


def test_a_pod_short_of_card_memory_alone_gets_it_and_only_one_has_to_go(fleet: Fleet):
    low = fill(fleet, *(pod(f"low-{n}") for n in range(NODES)))

    create(fleet, "urgent", priorityClassName="high")

    wait(fleet, lambda: is_bound(fleet, "urgent"))
    assert len(set(low) & fleet.watch.pods.keys()) == NODES - 1


def test_the_lowest_priority_has_to_go(fleet: Fleet):
    fill(
        fleet,
        pod("middle-0", priorityClassName="middle"),
        pod("low"),
        pod("middle-1", priorityClassName="middle"),
    )

    create(fleet, "urgent", priorityClassName="high")

    wait(fleet, lambda: is_bound(fleet, "urgent"))
    assert {"middle-0", "middle-1"} <= fleet.watch.pods.keys()
    assert "low" not in fleet.watch.pods


def test_while_the_victim_ends_nobody_of_lower_priority_takes_its_place(fleet: Fleet):
    fill(
        fleet,
        pod("victim", grace_s=30),
        *(pod(f"middle-{n}", priorityClassName="high") for n in range(NODES - 1)),
    )
    create(fleet, "urgent", priorityClassName="high")
    wait(fleet, lambda: "deletionTimestamp" in fleet.watch.pods["victim"]["metadata"])
    create(fleet, "thief", priorityClassName="middle", memory_mib=1_000)
    never(fleet, lambda: is_bound(fleet, "thief") or is_bound(fleet, "urgent"), for_s=2)

    fleet.delete_pods(["victim"])  # its kubelet has ended it

    wait(fleet, lambda: is_bound(fleet, "urgent"))
    never(fleet, lambda: is_bound(fleet, "thief"), for_s=2)


def test_who_must_not_preempt_waits(fleet: Fleet):
    low = fill(fleet, *(pod(f"low-{n}") for n in range(NODES)))

    create(fleet, "patient", priorityClassName="patient")

    never(fleet, lambda: not set(low) <= fleet.watch.pods.keys())
    assert not is_bound(fleet, "patient")


def test_nobody_goes_for_a_pod_that_fits_on_no_card(fleet: Fleet):
    low = fill(fleet, *(pod(f"low-{n}") for n in range(NODES)))

    create(fleet, "giant", priorityClassName="high", memory_mib=CARD_MIB + 1)

    never(fleet, lambda: not set(low) <= fleet.watch.pods.keys())


def test_a_disruption_budget_is_never_broken(fleet: Fleet):
    low = fill(fleet, *(pod(f"low-{n}") for n in range(NODES)))
    fleet.report_running(low)
    for name in low:
        fleet.cluster.kubectl("label", "pod", name, "app=kept")
    fleet.cluster.kubectl(
        "create", "pdb", "kept", "--selector=app=kept", f"--min-available={NODES}"
    )
    try:
        fleet.cluster.wait_for(
            "poddisruptionbudgets.policy",
            lambda found: found.get("kept", {}).get("status", {}).get("currentHealthy") == NODES,
        )

        create(fleet, "urgent", priorityClassName="high")

        never(fleet, lambda: not set(low) <= fleet.watch.pods.keys())
    finally:
        fleet.cluster.kubectl("delete", "pdb", "kept")
    wait(fleet, lambda: is_bound(fleet, "urgent"), timeout_s=40)


KEPT = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kept}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], resources: [pods/eviction], operations: [CREATE]}
  validations:
    - {expression: "object.metadata.name != 'kept'", message: this one stays}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kept}
spec: {policyName: kept, validationActions: [Deny]}
"""


def may_be_evicted(fleet: Fleet, name: str) -> bool:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": {"dryRun": ["All"]},
    }
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    tried = fleet.cluster.try_kubectl(
        "create", "--raw", path, "-f", "-", stdin=json.dumps(eviction)
    )
    return not tried.returncode


def test_where_admission_keeps_one_of_two_the_other_stays_as_well(fleet: Fleet):
    half = CARD_MIB // 2
    fill(
        fleet,
        *(pod(f"high-{n}", priorityClassName="high") for n in range(NODES - 1)),
        pod("goes-first", memory_mib=half),
        pod("kept", memory_mib=half, priorityClassName="middle"),
    )
    fleet.cluster.apply(KEPT)
    try:
        wait(fleet, lambda: not may_be_evicted(fleet, "kept"))
        assert may_be_evicted(fleet, "goes-first")

        create(fleet, "urgent", priorityClassName="high")

        wait(fleet, lambda: "this one stays" in fleet.replicas["1"].log())
        never(fleet, lambda: "goes-first" not in fleet.watch.pods)
        assert "deletionTimestamp" not in fleet.watch.pods["goes-first"]["metadata"]
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            fleet.cluster.kubectl("delete", kind, "kept")


def test_where_cpu_is_short_too_those_go_whose_cards_are_needed(fleet: Fleet):
    """kube-scheduler sees that CPU is short alone, and would be content with any of them."""
    half = CARD_MIB // 2
    names = []
    for number in range(NODES):
        names += fill(
            fleet,
            pod(f"cpu-{number}", memory_mib=1, cpu="60", nodeSelector=on(number)),
            pod(f"memory-{number}", memory_mib=CARD_MIB - half, cpu="60", nodeSelector=on(number)),
        )

    create(fleet, "urgent", priorityClassName="high", memory_mib=CARD_MIB - 10, cpu="20")

    wait(fleet, lambda: is_bound(fleet, "urgent"))
    node = fleet.watch.pods["urgent"]["spec"]["nodeName"]
    gone = set(names) - fleet.watch.pods.keys()
    assert gone == {f"memory-{int(node[-4:])}"}  # it leaves CPU enough, too


def on(number: int) -> dict[str, str]:
    return {"kubernetes.io/hostname": f"gpu-{number:04}"}
