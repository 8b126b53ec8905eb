"""Pods that wait, and the real kube-scheduler: when are they tried again?

The reports are d 13 of those on GPU sharing: the pod that waits must not wait for the next flush
of kube-scheduler once there is room, nor be tried over and over while there is none.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hamid.codec.node_annotation import encode_node_inventory
from hamid.model.names import DEVICE_CORDON, NODE_REGISTER
from tests.cluster.fleet import gpu_pod
from tests.cluster.one_card import CARD_MIB, inventory, one_card_fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet

PORT = 21443
NODES = 4
SOON_S = (
    20.0  # far from the next flush, which comes after five minutes; bench-wakeup has the figure
)
FEW = 8


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with one_card_fleet(nodes=NODES, port=PORT) as made:
        yield made


@pytest.fixture
def holder(fleet: Fleet) -> Iterator[str]:
    """One of the pods that hold all cards."""
    names = fleet.create_pods(gpu_pod(f"pod-x{n}", memory_mib=CARD_MIB) for n in range(NODES))
    fleet.watch.wait_bound(names)
    yield names[0]
    fleet.clear_pods()


def create(fleet: Fleet, name: str, **spec: object) -> list[str]:
    return fleet.create_pods([gpu_pod(name, memory_mib=CARD_MIB, **spec)])


def wait_refused(fleet: Fleet, name: str) -> None:
    def is_refused() -> bool:
        conditions = fleet.watch.pods.get(name, {}).get("status", {}).get("conditions", ())
        return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)

    assert fleet.watch.wait_for(is_refused)


def filter_calls(fleet: Fleet) -> int:
    text = fleet.leader().daemon.status("/metrics")
    found = re.search(r'^hamid_sched_call_seconds_count\{verb="filter"\} (\S+)', text, re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_d13_a_pod_that_waits_for_one_that_ends_is_bound_within_seconds(fleet: Fleet, holder: str):
    before = filter_calls(fleet)
    fleet.delete_pods([holder], grace_s=20)
    create(fleet, "pod-y")
    wait_refused(fleet, "pod-y")
    # As long as x has its grace, nothing happens that y has to be tried for.
    assert not fleet.watch.wait_for(lambda: "pod-y" in fleet.watch.bound_at_s, timeout_s=5)
    tried_in_vain = filter_calls(fleet) - before

    ended_at_s = time.monotonic()
    fleet.delete_pods([holder])
    bound_at_s = fleet.watch.wait_bound(["pod-y"], timeout_s=60)

    assert bound_at_s - ended_at_s < SOON_S
    assert tried_in_vain <= FEW
    assert filter_calls(fleet) - before <= tried_in_vain + FEW
    fleet.books().check()


def test_a_pod_of_high_priority_that_waits_is_not_tried_without_end(fleet: Fleet, holder: str):
    """kube-scheduler looks for pods to evict; whom it finds must not become news of its own."""
    fleet.create_priority_class("high", 1000)
    create(fleet, "pod-y", priorityClassName="high")
    wait_refused(fleet, "pod-y")
    before = filter_calls(fleet)

    assert not fleet.watch.wait_for(lambda: "pod-y" in fleet.watch.bound_at_s, timeout_s=3)

    assert filter_calls(fleet) - before <= FEW


def test_a_cordon_that_is_lifted_wakes_the_pod_that_waits_for_the_card(fleet: Fleet, holder: str):
    node = fleet.watch.pods[holder]["spec"]["nodeName"]
    fleet.annotate_node(node, {DEVICE_CORDON: f"card-of-{node}"})
    fleet.delete_pods([holder])
    create(fleet, "pod-y")
    wait_refused(fleet, "pod-y")

    lifted_at_s = time.monotonic()
    fleet.annotate_node(node, {DEVICE_CORDON: None})

    assert fleet.watch.wait_bound(["pod-y"], timeout_s=60) - lifted_at_s < SOON_S


def test_a_card_that_is_healthy_again_wakes_the_pod_that_waits_for_it(fleet: Fleet, holder: str):
    node = fleet.watch.pods[holder]["spec"]["nodeName"]
    well = inventory(node)
    sick = replace(well, devices=(replace(well.devices[0], is_healthy=False),))
    fleet.annotate_node(node, {NODE_REGISTER: encode_node_inventory(sick)})
    fleet.delete_pods([holder])
    create(fleet, "pod-y")
    wait_refused(fleet, "pod-y")

    healed_at_s = time.monotonic()
    fleet.annotate_node(node, {NODE_REGISTER: encode_node_inventory(well)})

    assert fleet.watch.wait_bound(["pod-y"], timeout_s=60) - healed_at_s < SOON_S


@pytest.mark.usefixtures("holder")
def test_a_node_that_comes_wakes_the_pod_that_waits(fleet: Fleet):
    create(fleet, "pod-y")
    wait_refused(fleet, "pod-y")

    came_at_s = time.monotonic()
    fleet.create_nodes(["late"])

    assert fleet.watch.wait_bound(["pod-y"], timeout_s=60) - came_at_s < SOON_S
    fleet.api.call("DELETE", "/api/v1/nodes/late")
