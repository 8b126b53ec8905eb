"""The pods of this node, from our own watch, as the device plugin needs them.

Invariants:

1. The watch tells of one pod in the order of events. A list asked for beside it may be older by
   the time it is read, so it only adds pods that the watch has not brought; and if the watch began
   anew meanwhile, which deletions are between the two nobody can tell, so it is asked for again.
2. A pod that was seen to be deleted stays so: UIDs are never used again.
3. There is one pod of a name: the newest UID that was seen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.codec.allocation_record import read_allocation
from hamid.codec.pod import counted, has_ended, pod_containers, pod_meta
from hamid.codec.sharing import read_sharing
from hamid.errors import AnnotationError, KubeError
from hamid.kube.port import PODS, EventKind
from hamid.model.names import POD_ALLOCATION
from hamid.model.sharing import Sharing, SharingMode
from hamid.plugin.matching import AskingContainer, PodOnNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.kube.port import JsonObject, KubePort, ObjectList, WatchEvent
    from hamid.model.names import ResourceNames

log = structlog.get_logger(__name__)

_DELETED_KEPT: Final = 4096
"""Far more than a node's pods: a list is older than the watch by seconds at most."""


@dataclass(slots=True, kw_only=True)
class NodePods:
    """The node's pods that ask for our resource; the sink of their watch.

    Args:
        names: of resources; the kubelet counts slots of the first.
        refresh_deadline_s: for a direct list: the kubelet waits meanwhile.

    Attributes:
        is_listed: whether the pods were listed once, so that one that is not here is not there.
        refresh_failure: why the latest direct list failed; None if it did not.
    """

    node_name: str
    names: ResourceNames
    kube: KubePort
    refresh_deadline_s: float = 1.0
    is_listed: bool = False
    refresh_failure: str | None = None
    _by_uid: dict[str, PodOnNode] = field(default_factory=dict)
    _begun_count: int = 0
    _deleted: deque[str] = field(default_factory=lambda: deque(maxlen=_DELETED_KEPT))

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """Start anew from a list."""
        # What it lacks may be deleted, or too new for the cache that it came from.
        self._by_uid = {}
        self._begun_count += 1
        for pod in objects:
            self.keep(pod)
        self.is_listed = True

    def apply(self, event: WatchEvent) -> None:
        """Take one event of the watch."""
        match event.kind:
            case EventKind.ADDED | EventKind.MODIFIED:
                self.keep(event.object)
            case EventKind.DELETED:
                self._forget(event.object["metadata"]["uid"])

    def keep(self, pod: JsonObject) -> None:
        """Take the pod as it is now; one that asks for nothing, or is deleted, does not count."""
        seen = pod_on_node(pod, names=self.names)
        if not seen.asking or seen.pod_uid in self._deleted:
            return
        before = self._by_uid.get(seen.pod_uid)
        if seen.problem is not None and (before is None or before.problem != seen.problem):
            log.warning("allocation unreadable", pod=seen.pod_key, reason=seen.problem)
        if before is None:
            for other in self.pods():
                if (other.namespace, other.name) == (seen.namespace, seen.name):
                    self._forget(other.pod_uid)
        self._by_uid[seen.pod_uid] = seen

    async def refresh(self) -> None:
        """List the node's pods now: the kubelet may have heard of one before our watch did."""
        try:
            async with asyncio.timeout(self.refresh_deadline_s):
                listed = await self._list()
        except (KubeError, TimeoutError) as error:
            too_late = f"no answer in {self.refresh_deadline_s:g} s"
            self.refresh_failure = error.message if isinstance(error, KubeError) else too_late
            log.warning("pods not refreshed", error=self.refresh_failure)
            return
        self.refresh_failure, self.is_listed = None, True
        for pod in listed.items:
            if pod["metadata"]["uid"] not in self._by_uid:
                self.keep(pod)

    async def _list(self) -> ObjectList:
        """The node's pods as of a moment since which the watch has not begun anew."""
        while True:
            begun_count = self._begun_count
            listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={self.node_name}")
            if self._begun_count == begun_count:
                return listed

    async def find(self, pod_uid: str) -> PodOnNode | None:
        """The pod of this UID; asks the API server if the watch has not brought it yet."""
        if pod_uid not in self._by_uid and pod_uid not in self._deleted:
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

    def _forget(self, pod_uid: str) -> None:
        self._by_uid.pop(pod_uid, None)
        self._deleted.append(pod_uid)


def pod_on_node(pod: JsonObject, *, names: ResourceNames) -> PodOnNode:
    """What the device plugin needs of the pod object."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    allocation, problem = None, None
    try:
        allocation = read_allocation(pod, names=names)
    except AnnotationError as error:
        problem = str(error)
    return PodOnNode(
        pod_uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        created_at=metadata.get("creationTimestamp") or "",
        asking=tuple(_asking(pod, names.count)),
        allocation=allocation,
        is_by_hami=allocation is not None and POD_ALLOCATION not in pod_meta(pod).annotations,
        problem=problem,
        is_initialized=any(
            condition.get("type") == "Initialized" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        is_terminal=has_ended(pod),
        running=frozenset(_running(status)),
    )


def _running(status: JsonObject) -> Iterator[str]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            if "running" in (container.get("state") or {}):
                yield container["name"]


def _asking(pod: JsonObject, resource_name: str) -> Iterator[AskingContainer]:
    spec = pod.get("spec") or {}
    for position, container in enumerate(pod_containers(pod)):
        slot_count = counted(container, resource_name)
        if container.kind is not None and slot_count > 0:
            yield AskingContainer(
                name=container.name,
                kind=container.kind,
                position=position,
                slot_count=slot_count,
                sharing=_sharing(pod, spec[container.list_name][container.index]),
            )


def _sharing(pod: JsonObject, container: JsonObject) -> Sharing:
    try:
        return read_sharing(pod, container)
    except AnnotationError as error:
        # No reason to let it fail here, where nobody sees why: a hard cap always holds.
        log.warning("sharing unreadable", pod=pod["metadata"]["name"], error=str(error))
        return Sharing(mode=SharingMode.HARD)
