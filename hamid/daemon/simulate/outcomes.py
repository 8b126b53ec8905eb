"""How each pod fares, from what is really there: the API server's pods and the containers' grants."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from hamid.daemon.simulate.roster import pod_key
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import decode_control_page
from hamid.model.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hamid.daemon.simulate.roster import Roster
    from hamid.daemon.simulate.scheduler import SimulatedScheduler
    from hamid.daemon.simulate.view import ClusterView
    from hamid.kube.port import JsonObject
    from hamid.kubelet.fake import FakeKubelet


class PodState(StrEnum):
    """What became of a pod."""

    RUNNING = "running"
    PENDING = "pending"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What a container may use of one card, as its control page has it."""

    uuid: str
    model: str
    memory_mib: int
    core_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One pod.

    Attributes:
        pod: `namespace/name`.
        containers: of those that were given something.
        reason: why it does not run; None if it does.
    """

    pod: str
    state: PodState
    node: str | None = None
    containers: Mapping[str, tuple[Slice, ...]] = field(default_factory=dict)
    reason: str | None = None

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(self, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Looks at everything.

    Attributes:
        kubelets: by node.
        models: device UUID → model.
    """

    view: ClusterView
    roster: Roster
    scheduler: SimulatedScheduler
    kubelets: Mapping[str, FakeKubelet]
    models: Mapping[str, str]

    def look(self) -> tuple[Outcome, ...]:
        """Every pod, those of the manifests first, in their order."""
        there = {pod_key(pod): pod for pod in self.view.pods.values()}
        keys = dict.fromkeys([*self.roster.refusals, *there])
        return tuple(self._all(keys, there))

    def _all(self, keys: Mapping[str, None], there: Mapping[str, JsonObject]) -> Iterator[Outcome]:
        for key in keys:
            refusal = self.roster.refusals.get(key)
            if key in there:
                yield self._of(key, there[key])
            elif refusal is not None:
                yield Outcome(pod=key, state=PodState.REFUSED, reason=refusal)

    def _of(self, key: str, pod: JsonObject) -> Outcome:
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        node = pod["spec"].get("nodeName") or None
        if node is None:
            why = self.scheduler.reasons.get(uid) or "it is about to be placed"
            return Outcome(pod=key, state=PodState.PENDING, reason=why)
        containers = dict(self._slices(node, pod))
        reason: str | None
        if pod["metadata"].get("deletionTimestamp"):
            state, reason = PodState.PENDING, "it is being deleted"
        elif node not in self.kubelets:
            state, reason = PodState.PENDING, f"there is no node {node!r}"
        elif status.get("phase") == "Failed":
            said = status.get("message") or status.get("reason")
            state, reason = PodState.REFUSED, f"the kubelet of {node} refused it: {said}"
        elif status.get("phase") == "Running":
            state, reason = PodState.RUNNING, None
        else:
            state, reason = PodState.PENDING, _waiting(status) or f"{node} is about to start it"
        return Outcome(pod=key, state=state, node=node, containers=containers, reason=reason)

    def _slices(self, node: str, pod: JsonObject) -> Iterator[tuple[str, tuple[Slice, ...]]]:
        kubelet, spec = self.kubelets.get(node), pod["spec"]
        if kubelet is None:
            return
        for entry in (*(spec.get("initContainers") or ()), *spec["containers"]):
            grant = kubelet.grant(pod["metadata"]["uid"], entry["name"])
            page = (
                _control_page({m.container_path: m.host_path for m in grant.mounts})
                if grant
                else None
            )
            if page is not None:
                yield (
                    entry["name"],
                    tuple(
                        Slice(
                            uuid=device.device_uuid,
                            model=self.models.get(device.device_uuid, ""),
                            memory_mib=(device.memory_bytes or 0) // MIB,
                            core_percent=device.core_percent,
                        )
                        for device in decode_control_page(page).devices
                    ),
                )


def finished(pod: JsonObject) -> frozenset[str]:
    """The containers that have ended, and hold nothing any more."""
    entries = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return frozenset(e["name"] for e in entries if (e.get("state") or {}).get("terminated"))


def _control_page(mounts: Mapping[str, str]) -> bytes | None:
    """The page that the container would read, or None if the plugin has taken it away again."""
    directory = mounts.get(contract.LIMITS_DIR)
    if directory is None:
        return None
    try:
        return (Path(directory) / contract.CONTROL_PAGE_NAME).read_bytes()
    except FileNotFoundError:
        return None


def _waiting(status: JsonObject) -> str | None:
    """What keeps a container from starting."""
    entries: list[dict[str, Any]] = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for entry in entries:
        waiting = (entry.get("state") or {}).get("waiting")
        if waiting and waiting.get("message"):
            return f"container {entry['name']!r} does not start: {waiting['message']}"
    return None
