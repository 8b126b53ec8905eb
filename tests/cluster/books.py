"""The recount: what the cluster's annotations say is taken, beside what the leader's books say.

The sums are made here from the pods' annotations, not by hamid's code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hamid.model.names import POD_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.rawapi import Object, RawApi

Amounts = tuple[int, int, int]
"""Slots, MiB, percent of cores."""
NOTHING: Amounts = (0, 0, 0)
PATIENCE_COUNT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What is taken of each card, by UUID, and what there is.

    Attributes:
        annotated: by the pods' annotations.
        led: by the leader's /debug/cache.
        capacities: by the nodes' registrations, as the leader shows them.
        reserved: decisions of which the leader does not know yet that they are bound.
        pods: bound pods that have cards.
    """

    annotated: Mapping[str, Amounts]
    led: Mapping[str, Amounts]
    capacities: Mapping[str, Amounts]
    reserved: int
    pods: int

    def differences(self) -> dict[str, tuple[Amounts, Amounts]]:
        """Cards of which the two say different things: the annotations, the leader."""
        return {
            uuid: (self.annotated.get(uuid, NOTHING), self.led.get(uuid, NOTHING))
            for uuid in self.annotated.keys() | self.led.keys()
            if self.annotated.get(uuid, NOTHING) != self.led.get(uuid, NOTHING)
        }

    def overbooked(self) -> dict[str, tuple[Amounts, Amounts]]:
        """Cards of which more is taken than there is."""
        return {
            uuid: (taken, self.capacities.get(uuid, NOTHING))
            for uuid, taken in self.annotated.items()
            if any(
                one > most
                for one, most in zip(taken, self.capacities.get(uuid, NOTHING), strict=True)
            )
        }

    def check(self) -> None:
        """Assert that both are the same, and that there is no more than there is."""
        assert not self.differences()
        assert not self.overbooked()
        assert self.reserved == 0


def books_of(api: RawApi, page: Callable[[str], Any]) -> Books:
    """Both sides, once they agree; or how they differ when they still do after a while.

    The leader hears of changes a moment later than we do.
    """
    for _ in range(PATIENCE_COUNT):
        found = _look(api, page)
        if not found.differences() and not found.reserved:
            break
    return found


def _look(api: RawApi, page: Callable[[str], Any]) -> Books:
    pods = [pod for pod in api.list("/api/v1/pods") if _is_there(pod)]
    annotated: dict[str, Amounts] = {}
    for pod in pods:
        for uuid, amounts in _taken_by(pod).items():
            annotated[uuid] = _plus(annotated.get(uuid, NOTHING), amounts)
    led, capacities = {}, {}
    cache = page("cache")
    for node in cache["nodes"]:
        for usage in node["usages"]:
            device = usage["device"]
            uuid = device["device_uuid"]
            led[uuid] = (
                usage["slots_used"],
                usage["memory_used_mib"],
                usage["core_used_percent"],
            )
            capacities[uuid] = (
                device["slot_count"],
                device["memory_mib"],
                device["core_percent"],
            )
    return Books(
        annotated=annotated,
        led=led,
        capacities=capacities,
        reserved=len(cache["reservations"]),
        pods=len(pods),
    )


def _is_there(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    is_over = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return bool(pod["spec"].get("nodeName")) and POD_ALLOCATION in annotations and not is_over


def _taken_by(pod: Object) -> dict[str, Amounts]:
    """What the pod takes: the larger of its init phase's peak and of what runs afterwards."""
    record = json.loads(pod["metadata"]["annotations"][POD_ALLOCATION])
    assert record["pod_uid"] == pod["metadata"]["uid"]
    assert record["node"] == pod["spec"]["nodeName"]
    is_initialized = any(
        condition["type"] == "Initialized" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", ())
    )
    peaks: dict[str, Amounts] = {}
    lasting: dict[str, Amounts] = {}
    for container in record["containers"].values():
        shares: dict[str, Amounts] = {}
        for share in container["shares"]:
            amounts = (1, share["memory_mib"], share["core_percent"])
            shares[share["uuid"]] = _plus(shares.get(share["uuid"], NOTHING), amounts)
        for uuid, amounts in shares.items():
            beside = _plus(lasting.get(uuid, NOTHING), amounts)
            if container["kind"] != "init":
                lasting[uuid] = beside
            elif not is_initialized:
                peaks[uuid] = _most(peaks.get(uuid, NOTHING), beside)
    return {
        uuid: _most(peaks.get(uuid, NOTHING), lasting.get(uuid, NOTHING))
        for uuid in peaks.keys() | lasting.keys()
    }


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _most(one: Amounts, other: Amounts) -> Amounts:
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))
