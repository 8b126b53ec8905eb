"""The pods of this node, from our own watch, as the device plugin needs them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.codec.allocation_record import read_allocation
from hamid.errors import AnnotationError, KubeError
from hamid.kube.port import PODS, EventKind
from hamid.plugin.matching import PodOnNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.kube.port import JsonObject, KubePort, WatchEvent

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class NodePods:
    """The node's pods that ask for our resource; the sink of their watch.

    Args:
        resource_name: the resource that the kubelet counts slots of.
        refresh_deadline_s: for a direct list: the kubelet waits meanwhile.
    """

    node_name: str
    resource_name: str
    kube: KubePort
    refresh_deadline_s: float = 1.0
    _by_uid: dict[str, PodOnNode] = field(default_factory=dict)

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """Start anew from a list."""
        self._by_uid = {}
        for pod in objects:
            self.keep(pod)

    def apply(self, event: WatchEvent) -> None:
        """Take one event of the watch."""
        match event.kind:
            case EventKind.ADDED | EventKind.MODIFIED:
                self.keep(event.object)
            case EventKind.DELETED:
                self._by_uid.pop(event.object["metadata"]["uid"], None)

    def keep(self, pod: JsonObject) -> None:
        """Take the pod as it is now; one that asks for nothing is of no interest."""
        seen = pod_on_node(pod, resource_name=self.resource_name)
        if seen.asked:
            self._by_uid[seen.pod_uid] = seen
        else:
            self._by_uid.pop(seen.pod_uid, None)

    async def refresh(self) -> None:
        """List the node's pods now: the kubelet may have heard of one before our watch did."""
        try:
            async with asyncio.timeout(self.refresh_deadline_s):
                listed = await self.kube.list(
                    PODS, field_selector=f"spec.nodeName={self.node_name}"
                )
        except (KubeError, TimeoutError) as error:
            log.warning("pods not refreshed", error=repr(error))
            return
        for pod in listed.items:
            self.keep(pod)

    async def find(self, pod_uid: str) -> PodOnNode | None:
        """The pod of this UID; asks the API server if the watch has not brought it yet."""
        if pod_uid not in self._by_uid:
            await self.refresh()
        return self._by_uid.get(pod_uid)

    def pods(self) -> tuple[PodOnNode, ...]:
        """All of them."""
        return tuple(self._by_uid.values())

    def pod(self, pod_uid: str) -> PodOnNode | None:
        """The pod of this UID, as far as the watch knows."""
        return self._by_uid.get(pod_uid)

    def by_name(self, namespace: str, name: str) -> PodOnNode | None:
        """The pod of this name that is not finished."""
        return next(
            (
                pod
                for pod in self._by_uid.values()
                if (pod.namespace, pod.name) == (namespace, name) and not pod.is_terminal
            ),
            None,
        )


def pod_on_node(pod: JsonObject, *, resource_name: str) -> PodOnNode:
    """What the device plugin needs of the pod object."""
    metadata = pod["metadata"]
    allocation, problem = None, None
    try:
        allocation = read_allocation(pod)
    except AnnotationError as error:
        problem = str(error)
        log.warning("allocation unreadable", pod_uid=metadata["uid"], error=problem)
    return PodOnNode(
        pod_uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        created_at=metadata.get("creationTimestamp") or "",
        asked=_asked(pod.get("spec") or {}, resource_name),
        allocation=allocation,
        problem=problem,
        is_terminal=(pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
    )


def _asked(spec: JsonObject, resource_name: str) -> Mapping[str, int]:
    asked = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limits = (container.get("resources") or {}).get("limits") or {}
        # The API server has checked that it is a whole number; the kubelet reads limits only.
        text = str(limits.get(resource_name, "0"))
        if text.isdecimal() and int(text) > 0:
            asked[container["name"]] = int(text)
    return asked
