"""What the author of a waiting pod reads: kube-scheduler's event and ours, on the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from benchmarks.scenarios import registered
from hamid.model import names as wire
from hamid.sched.waiting_events import REASON
from tests.cluster.fleet import gpu_pod, running_fleet
from tests.cluster.harness import skipped_without_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.fleet import Fleet
    from tests.cluster.rawapi import Object

PORT: Final = 23443
EVENTS: Final = "/api/v1/namespaces/default/events"
CHANGE: Final = (
    "It would fit if you ask for 8080 MiB less (81920 instead of 90000) in container main"
)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Three nodes of eight cards."""
    settings = {"sched": {"event_after_s": 1.0, "event_interval_s": 2.0}}
    with skipped_without_cluster(), running_fleet(nodes=3, port=PORT, settings=settings) as made:
        yield made


def told(events: dict[str, Object], wanted: str) -> Object | None:
    """Our event about the pod `big`, once it says this."""
    for event in events.values():
        if event["reason"] == REASON and event["involvedObject"]["name"] == "big":
            return event if wanted in event["message"] else None
    return None


def test_a_waiting_pod_is_told_the_smallest_change_in_one_event_that_is_kept(fleet):
    fleet.create_pods([gpu_pod("big", memory_mib=90_000)])

    first = fleet.cluster.wait_for("events", lambda found: told(found, CHANGE))
    scheduler = fleet.cluster.wait_for_event("big", "FailedScheduling")
    described = fleet.cluster.kubectl("describe", "pod", "big")

    assert "24 are too small (need 90000 MiB, largest has 81920 MiB)" in first["message"]
    assert "too small (need 90000 MiB, largest has 81920 MiB)" in scheduler
    assert CHANGE in described

    card = registered("gpu-0000").devices[0].device_uuid
    fleet.annotate_node("gpu-0000", {wire.DEVICE_CORDON: card})
    second = fleet.cluster.wait_for("events", lambda found: told(found, "1 on 1 node is cordoned"))

    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    ours = [event for event in fleet.api.list(EVENTS) if event["reason"] == REASON]
    assert len(ours) == 1
    fleet.delete_pods(["big"])
