"""A stand-in for kube-scheduler: the in-tree checks that matter here, then our extender over HTTP.

It takes pods in the order of their creation, one after another, and tries all waiting ones again
whenever something changed. Imitated: requested CPU and memory against allocatable, nodeSelector,
required node affinity (In, NotIn, Exists, DoesNotExist), unschedulable nodes, taints that a pod
does not tolerate, filter → prioritize → bind with extender scores unclamped, the wording of
FailedScheduling. Not imitated: everything else of kube-scheduler, such as preemption, spreading,
pod affinity, volumes and back-off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import structlog

from hamid.errors import HamidError, KubeError
from hamid.kube.port import EVENTS, NODES, PODS, PatchKind
from hamid.model.quantities import parse_quantity

if TYPE_CHECKING:
    from hamid.aiokit.latest import Latest
    from hamid.daemon.simulate.extender_client import ExtenderClient
    from hamid.kube.port import JsonObject, KubePort

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How the last try to place a pod ended; empty reason for a success."""

    node_name: str | None
    reason: str


@dataclass(slots=True, kw_only=True)
class SimulatedScheduler:
    """Places waiting pods; a service.

    Attributes:
        changes: counts what may free or need room; each change is a reason to try again.
        attempts: by pod UID.
        settled: the value of `changes` at which every waiting pod was tried.
    """

    kube: KubePort
    extender: ExtenderClient
    our_name: str
    changes: Latest[int]
    settled: Latest[int]
    attempts: dict[str, Attempt] = field(default_factory=dict)
    name: str = "simulated-scheduler"

    async def run(self) -> None:
        """Place pods until cancelled."""
        async for change in self.changes.changes():
            await self.step()
            self.settled.publish(change)

    async def step(self) -> None:
        """Try every waiting pod once, oldest first."""
        pods = (await self.kube.list(PODS)).items
        nodes = (await self.kube.list(NODES)).items
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and _is_active(pod)]
        for pod in sorted(waiting, key=_age):
            try:
                bound = [p for p in pods if p["spec"].get("nodeName") and _is_active(p)]
                node_name = await self._place(pod, nodes, bound)
            except (HamidError, TimeoutError) as error:
                await self._refused(pod, str(error))
                continue
            pod["spec"]["nodeName"] = node_name
            self.attempts[pod["metadata"]["uid"]] = Attempt(node_name=node_name, reason="")

    async def _place(
        self, pod: JsonObject, nodes: tuple[JsonObject, ...], bound: list[JsonObject]
    ) -> str:
        reasons: dict[str, str] = {
            node["metadata"]["name"]: in_tree_refusal(pod, node, bound) for node in nodes
        }
        fitting: list[str] = [name for name, reason in reasons.items() if not reason]
        if pod["spec"].get("schedulerName") != self.our_name:
            if not fitting:
                raise _Unschedulable(reasons)
            metadata = pod["metadata"]
            await self.kube.bind(
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=metadata["uid"],
                node_name=fitting[0],
                annotations={},
            )
            return fitting[0]
        if fitting:
            answer = await self.extender.filter(pod, fitting)
            reasons |= answer.failed
            fitting = list(answer.node_names)
        if not fitting:
            raise _Unschedulable(reasons)
        if len(fitting) > 1:
            scores = await self.extender.prioritize(pod, fitting)
            fitting.sort(key=lambda name: (-scores.get(name, 0), name))
        await self.extender.bind(pod, fitting[0])
        return fitting[0]

    async def _refused(self, pod: JsonObject, reason: str) -> None:
        metadata = pod["metadata"]
        before = self.attempts.get(metadata["uid"])
        self.attempts[metadata["uid"]] = Attempt(node_name=None, reason=reason)
        if before is not None and before.reason == reason:
            return
        log.info("pod not placed", pod=f"{metadata['namespace']}/{metadata['name']}", reason=reason)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
        }
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{metadata['name']}.",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reason": "FailedScheduling",
            "message": reason,
            "type": "Warning",
            "source": {"component": self.our_name},
        }
        try:
            await self.kube.patch(
                PODS,
                metadata["name"],
                {"status": {"conditions": [condition]}},
                kind=PatchKind.MERGE,
                namespace=metadata["namespace"],
                subresource="status",
            )
            await self.kube.create(EVENTS, event, namespace=metadata["namespace"])
        except KubeError as error:
            log.warning("refusal not recorded", error=str(error))


class _Unschedulable(HamidError):
    """No node takes the pod; worded as kube-scheduler does."""

    def __init__(self, reasons: dict[str, str]) -> None:
        counted = Counter(reason for reason in reasons.values() if reason)
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counted.items()))
        super().__init__(f"0/{len(reasons)} nodes are available: {listed}.", hint="")

    def __str__(self) -> str:
        return self.message


def in_tree_refusal(pod: JsonObject, node: JsonObject, bound: list[JsonObject]) -> str:
    """Why kube-scheduler itself keeps the pod from the node; empty if it does not."""
    spec, node_spec = pod["spec"], node.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    if node_spec.get("unschedulable"):
        return "node(s) were unschedulable"
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()) or not _has_affinity(
        spec, labels
    ):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = next((t for t in node_spec.get("taints") or () if not _is_tolerated(t, spec)), None)
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    here = [p for p in bound if p["spec"]["nodeName"] == node["metadata"]["name"]]
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    for resource in ("cpu", "memory"):
        taken = sum((_requested(p["spec"], resource) for p in here), Fraction(0))
        if (
            taken + _requested(spec, resource)
            > parse_quantity(str(allocatable.get(resource, "0"))).value
        ):
            return f"Insufficient {resource}"
    return ""


def _requested(spec: JsonObject, resource: str) -> Fraction:
    """The larger of the peak of init containers and the sum of the others (sidecars count as both)."""

    def amount(container: JsonObject) -> Fraction:
        resources = container.get("resources") or {}
        text = (resources.get("requests") or {}).get(resource) or (
            resources.get("limits") or {}
        ).get(resource)
        return parse_quantity(str(text or "0")).value

    running = peak = Fraction(0)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            running += amount(container)
        else:
            peak = max(peak, running + amount(container))
    apps = sum((amount(container) for container in spec.get("containers") or ()), Fraction(0))
    return max(peak, running + apps)


def _has_affinity(spec: JsonObject, labels: dict[str, str]) -> bool:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not required:
        return True
    return any(
        all(_has_expression(e, labels) for e in term.get("matchExpressions") or ())
        for term in required.get("nodeSelectorTerms") or ()
    )


def _has_expression(expression: JsonObject, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def _is_tolerated(taint: JsonObject, spec: JsonObject) -> bool:
    if taint.get("effect") == "PreferNoSchedule":
        return True
    for toleration in spec.get("tolerations") or ():
        if toleration.get("key") not in (None, "", taint["key"]):
            continue
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        if toleration.get("operator") == "Exists" or toleration.get("value") == taint.get("value"):
            return True
    return False


def _is_active(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def _age(pod: JsonObject) -> tuple[Any, ...]:
    metadata = pod["metadata"]
    return (metadata.get("creationTimestamp") or "", int(metadata.get("resourceVersion") or 0))


async def wait_until_settled(scheduler: SimulatedScheduler) -> None:
    """Wait until every waiting pod was tried after the last change."""
    while scheduler.settled.get() < scheduler.changes.get():
        seen = scheduler.changes.get()
        await scheduler.settled.wait_for(lambda settled, seen=seen: settled >= seen)  # type: ignore[misc]
        await asyncio.sleep(0)
