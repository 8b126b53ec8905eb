"""A live cluster as it was at one moment: its nodes with cordons and links, and its pods as tasks.

Pods come again in the order of their creation, on nodes that are empty, and stay. Pods that have
ended do not come, nor those whose request cannot be read; the latter are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from hamid.codec.node_annotation import decode_node_inventory
from hamid.codec.pod import has_ended
from hamid.codec.pod_host import decode_pod_host
from hamid.codec.pod_request import decode_pod_request
from hamid.errors import AnnotationError, RequestError, TraceError
from hamid.model.request import ContainerKind, PodRequest
from hamid.sched.records import read_node
from hamid.sim.workload import SimNode, load_milli

if TYPE_CHECKING:
    from typing import Self

    from hamid.codec.cluster_copy import ClusterCopy
    from hamid.codec.jsontext import JsonObject
    from hamid.model.names import ResourceNames
    from hamid.model.node import HostAmount
    from hamid.model.request import RequestDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTask:
    """A pod of the snapshot."""

    pod: PodRequest
    arrives_at_s: float
    lasts_s: float | None = None
    card_memory_mib: int = 0

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return self.pod.pod_key

    @property
    def host(self) -> HostAmount:
        """What it asks of the host."""
        return self.pod.host

    @property
    def core_milli(self) -> int:
        """What its containers that run together ask for; see `Arrival`."""
        return sum(
            load_milli(r.device_count, r.memory, r.core_percent, self.card_memory_mib)
            for r in self.pod.requests
            if r.kind is not ContainerKind.INIT
        )

    def endless(self) -> Self:
        """The same, from the start and for ever."""
        return replace(self, arrives_at_s=0.0, lasts_s=None)

    def on_cards_of(self, memory_mib: int) -> Self:
        """The same, where cards have so much memory; see `Arrival`."""
        return replace(self, card_memory_mib=memory_mib)

    def request(self, pod_uid: str) -> PodRequest:
        """The same, as a pod of that UID."""
        return replace(self.pod, pod_uid=pod_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What it comes to."""

    nodes: tuple[SimNode, ...]
    tasks: tuple[PodTask, ...]
    unreadable_count: int


def read_snapshot(
    copy: ClusterCopy, *, names: ResourceNames, defaults: RequestDefaults
) -> Snapshot:
    """Make nodes and tasks of the cluster's.

    Raises:
        TraceError: a node's registration cannot be read.
    """
    tasks: list[PodTask] = []
    unreadable_count = 0
    for pod in copy.pods:
        if has_ended(pod):
            continue
        try:
            tasks.append(_task(pod, names, defaults))
        except RequestError:
            unreadable_count += 1
    return Snapshot(
        nodes=tuple(_node(node, names) for node in copy.nodes),
        tasks=tuple(tasks),
        unreadable_count=unreadable_count,
    )


def _node(node: JsonObject, names: ResourceNames) -> SimNode:
    note = read_node(node, names=names)
    name, text = note.node_name, note.inventory_text
    try:
        devices = decode_node_inventory(text, node_name=name).devices if text else ()
    except AnnotationError as error:
        raise TraceError(error.message, hint=error.hint) from error
    return SimNode(
        name=name, devices=devices, host=note.host, cordoned=note.cordoned, links=note.links
    )


def _task(pod: JsonObject, names: ResourceNames, defaults: RequestDefaults) -> PodTask:
    meta = pod.get("metadata") or {}
    request = decode_pod_request(pod, names=names, defaults=defaults) or PodRequest(
        pod_uid="",
        namespace=str(meta.get("namespace", "")),
        pod_name=str(meta.get("name", "")),
        container_names=(),
        requests=(),
        host=decode_pod_host(pod),
    )
    created = str(meta.get("creationTimestamp") or "1970-01-01T00:00:00Z")
    try:
        arrives_at_s = datetime.fromisoformat(created).timestamp()
    except ValueError:
        arrives_at_s = 0.0
    return PodTask(pod=request, arrives_at_s=arrives_at_s)
