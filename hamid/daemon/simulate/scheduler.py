"""A stand-in for kube-scheduler: its own checks (`in_tree`), then our extender over HTTP.

Pods are tried in the order of their creation. One that fits nowhere waits until something that
may have made room has happened: a pod went, ended or got through its init phase, a node changed.
Extender scores count alone and unclamped. Pods that are not ours go to the first node that takes
them. Not imitated: back-off of pods that fit nowhere, priorities, and what `in_tree` leaves out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.backoff import Backoff
from hamid.codec.pod import has_ended
from hamid.daemon.simulate.in_tree import refusal, requested, unschedulable_sentence
from hamid.daemon.simulate.view import is_active, is_bound
from hamid.errors import HamidError, KubeError
from hamid.kube.port import EVENTS, PODS, PatchKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hamid.daemon.simulate.extender_client import ExtenderClient
    from hamid.daemon.simulate.in_tree import Amounts
    from hamid.daemon.simulate.view import ClusterView
    from hamid.kube.port import JsonObject, KubePort

log = structlog.get_logger(__name__)

DEFAULT_SCHEDULER: Final = "default-scheduler"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


@dataclass(slots=True, kw_only=True)
class SimulatedScheduler:
    """Places waiting pods; a service, and a listener of the view.

    Attributes:
        our_name: of the profile that asks the extender.
        ignored: resources that are the extender's business (`ignoredByScheduler`).
        clock: seconds since 1970, for events.
        reasons: by pod UID, why it is not placed.
    """

    kube: KubePort
    extender: ExtenderClient
    view: ClusterView
    our_name: str
    ignored: Sequence[str]
    clock: Callable[[], float]
    reasons: dict[str, str] = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    name: str = "simulated-scheduler"
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _order: dict[str, int] = field(default_factory=dict)
    _active: set[str] = field(default_factory=set)
    _parked: set[str] = field(default_factory=set)
    _trying: str | None = None
    _is_stale: bool = False
    _needs: dict[str, Amounts] = field(default_factory=dict)
    _taken: dict[str, Amounts] = field(default_factory=dict)
    _counted: dict[str, str] = field(default_factory=dict)
    _has_work: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_idle(self) -> bool:
        """Whether every waiting pod was tried after the last change that could matter to it."""
        return not self._active and self._trying is None

    async def run(self) -> None:
        """Place pods until cancelled."""
        while True:
            await self._has_work.wait()
            await self.step()

    async def step(self) -> None:
        """Try the oldest pod that waits to be tried."""
        if not self._active:
            self._has_work.clear()
            return
        uid = min(self._active, key=self._order.__getitem__)
        self._active.discard(uid)
        self._trying, self._is_stale = uid, False
        try:
            reason = await self._try(self.view.pods[uid])
            self.backoff.reset()
        except (HamidError, TimeoutError) as error:
            await asyncio.sleep(self.backoff.next_delay_s())
            reason, self._is_stale = str(error), True
        finally:
            self._trying = None
        if uid in self._order and reason:
            (self._active if self._is_stale else self._parked).add(uid)
            self.reasons[uid] = reason
        self.view.tell()

    # What the view tells.

    def took_pod(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """Queue the pod, forget it, or try others again."""
        pod = now or before
        if pod is None:
            return
        uid = pod["metadata"]["uid"]
        self._count(uid, pod if now is not None and _holds_room(now) else None)
        if now is None or is_bound(now) or not is_active(now):
            self._forget(uid)
            if before is not None and is_bound(before) and _made_room(before, now):
                self.wake()
            return
        if now["spec"].get("schedulerName", DEFAULT_SCHEDULER) not in (
            self.our_name,
            DEFAULT_SCHEDULER,
        ):
            self.reasons[uid] = f"no scheduler {now['spec']['schedulerName']!r} runs here"
            return
        if now["spec"].get("schedulingGates"):
            self.reasons[uid] = GATED
            return
        if uid not in self._order or (before is not None and _asks_otherwise(before, now)):
            if uid not in self._order:
                self._order[uid] = next(self._numbers)
            self._activate({uid})

    def took_node(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """Try waiting pods again if the node is new or another."""
        if now is not None and (before is None or _offers_otherwise(before, now)):
            self.wake()

    def wake(self) -> None:
        """Try all waiting pods again."""
        self._activate(set(self._parked))
        self._is_stale = True  # whoever is being tried saw the room of before

    def _activate(self, uids: set[str]) -> None:
        self._parked -= uids
        self._active |= uids - {self._trying}
        if self._active:
            self._has_work.set()

    def _forget(self, uid: str) -> None:
        for known in (self._active, self._parked):
            known.discard(uid)
        self._order.pop(uid, None)
        self.reasons.pop(uid, None)

    def _count(self, uid: str, pod: JsonObject | None) -> None:
        """Keep the sums of what bound pods request, by node."""
        node_name = pod["spec"]["nodeName"] if pod is not None else None
        before = self._counted.get(uid)
        if before == node_name:
            return
        if before is not None:
            self._taken[before] = self._taken[before] - self._needs.pop(uid)
            del self._counted[uid]
        if pod is not None and node_name is not None:
            needed = self._needs[uid] = requested(pod["spec"], ignored=self.ignored)
            self._taken[node_name] = self._taken.get(node_name, Counter()) + needed
            self._counted[uid] = node_name

    # One try.

    async def _try(self, pod: JsonObject) -> str:
        """Bind the pod, or return why not."""
        spec = pod["spec"]
        needed = requested(spec, ignored=self.ignored)
        reasons = {
            name: refusal(spec, node, needed=needed, taken=self._taken.get(name, Counter()))
            for name, node in sorted(self.view.nodes.items())
        }
        fitting = [name for name, reason in reasons.items() if not reason]
        if spec.get("schedulerName") == self.our_name and fitting:
            answer = await self.extender.filter(pod, fitting)
            reasons |= answer.failed
            fitting = list(answer.node_names)
        if not fitting:
            reason = unschedulable_sentence(reasons)
            await self._record(pod, reason)
            return reason
        await self._bind(pod, fitting)
        return ""

    async def _bind(self, pod: JsonObject, fitting: list[str]) -> None:
        metadata = pod["metadata"]
        if pod["spec"].get("schedulerName") != self.our_name:
            await self.kube.bind(
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=metadata["uid"],
                node_name=fitting[0],
                annotations={},
            )
        else:
            if len(fitting) > 1:
                scores = await self.extender.prioritize(pod, fitting)
                fitting.sort(key=lambda name: (-scores.get(name, 0), name))
            await self.extender.bind(pod, fitting[0])
        # What we know must not lag behind what we did: the next pod is judged by it.
        await self.view.wait_until(lambda: _is_placed(self.view, metadata["uid"]))

    async def _record(self, pod: JsonObject, reason: str) -> None:
        """Say it in the pod's status and as an event, unless it was said already."""
        metadata = pod["metadata"]
        if self.reasons.get(metadata["uid"]) == reason:
            return
        log.info("pod not placed", pod=f"{metadata['namespace']}/{metadata['name']}", reason=reason)
        try:
            await self.kube.patch(
                PODS,
                metadata["name"],
                {"status": {"conditions": [_condition(reason)]}},
                kind=PatchKind.MERGE,
                namespace=metadata["namespace"],
                subresource="status",
            )
            await self.kube.create(
                EVENTS, self._event(pod, reason), namespace=metadata["namespace"]
            )
        except KubeError as error:
            log.warning("refusal not recorded", error=str(error))

    def _event(self, pod: JsonObject, reason: str) -> JsonObject:
        metadata = pod["metadata"]
        now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reason": "FailedScheduling",
            "message": reason,
            "type": "Warning",
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self.our_name},
        }


def _condition(reason: str) -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": reason,
    }


def _is_placed(view: ClusterView, uid: str) -> bool:
    pod = view.pods.get(uid)
    return pod is None or is_bound(pod)


def _holds_room(pod: JsonObject) -> bool:
    """Whether its requests count on its node: as kube-scheduler, until it is gone or has ended."""
    return is_bound(pod) and not has_ended(pod)


def _made_room(before: JsonObject, now: JsonObject | None) -> bool:
    """Whether the change of a bound pod may let others in."""
    if now is None or not _holds_room(now):
        return _holds_room(before)
    is_up = (now.get("status") or {}).get("phase") == "Running"
    was_up = (before.get("status") or {}).get("phase") == "Running"
    return bool(now["spec"].get("initContainers")) and is_up and not was_up


def _asks_otherwise(before: JsonObject, now: JsonObject) -> bool:
    old, new = before["metadata"], now["metadata"]
    return before["spec"] != now["spec"] or any(
        old.get(field) != new.get(field) for field in ("annotations", "labels")
    )


def _offers_otherwise(before: JsonObject, now: JsonObject) -> bool:
    return any(
        before.get(part, {}).get(field) != now.get(part, {}).get(field)
        for part, field in (
            ("metadata", "annotations"),
            ("metadata", "labels"),
            ("spec", "unschedulable"),
            ("spec", "taints"),
            ("status", "allocatable"),
        )
    )
