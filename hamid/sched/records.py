"""What is kept of the pods and nodes that the watches show: only what decisions rest on.

A pod object is some ten kilobytes; a record is a few hundred bytes, and a pod that neither waits
for a node nor holds devices is not kept at all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import structlog

from hamid.codec.allocation_record import devices_feared, read_allocation
from hamid.codec.jsontext import dumps
from hamid.codec.node_annotation import decode_cordon, decode_link_scores
from hamid.codec.pod import has_ended
from hamid.codec.pod_host import decode_node_host, decode_pod_host
from hamid.codec.pod_request import decode_pod_request
from hamid.codec.quota import decode_payer
from hamid.errors import AnnotationError, RequestError, shortened
from hamid.model import names as wire
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import WHOLE_DEVICE_PERCENT, DeviceShare
from hamid.model.node import NO_HOST
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.kube.port import JsonObject
    from hamid.model.device import DeviceUuid
    from hamid.model.names import ResourceNames
    from hamid.model.node import HostAmount
    from hamid.model.quota import Payer
    from hamid.model.request import PodRequest, RequestDefaults

log = structlog.get_logger(__name__)

_SYSTEM_NAMESPACE: Final = "kube-system"
_SYSTEM_PRIORITY: Final = 2_000_000_000
"""The lowest of the classes that Kubernetes keeps for itself."""
_NODE_RULES: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
)
"""What a spec says of nodes, beside amounts."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_LONGEST_PROBLEM: Final = 1_000
"""Characters: it is said once a node, and of thousands of containers something can be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod.

    Attributes:
        node_name: empty until it is bound.
        request: what it asks for; None when it asks for no device, or is bound.
        allocation: what it was given, by our record or HAMi's; None until it is bound. Where a
            record cannot be read, all cards that it may name, whole: they are somebody's, and
            must not be given to anybody else.
        problem: why request or allocation cannot be read; empty when they can.
        host: what it asks of its node's processors and memory.
        is_ended: its containers have ended for good, so it holds nothing.
        is_initialized: its plain init containers are done, so they hold nothing.
        priority: of its spec; the higher goes first.
        created_at: as the API server writes it; later ones compare greater.
        started_at: likewise; when its kubelet took it up, or it was created.
        leaves_at: likewise; by when it is to be gone, empty where nobody deleted it.
        grace_s: what it is given to end.
        may_preempt: others may be evicted for it.
        is_protected: it is never evicted: of the system, or its kubelet's own.
        labels: of pods that have a node.
        payer: whose quotas it is charged to; None where there is nothing to charge.
        scheduler_name: who is to place it.
        node_rules: of pods that wait; where equal, kube-scheduler lets them onto the same nodes, as
            far as neither amounts nor volumes have a say.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    node_name: str
    request: PodRequest | None = None
    allocation: PodAllocation | None = None
    problem: str = ""
    host: HostAmount = NO_HOST
    is_ended: bool = False
    is_initialized: bool = False
    priority: int = 0
    created_at: str = ""
    started_at: str = ""
    leaves_at: str = ""
    grace_s: int = 30
    may_preempt: bool = True
    is_protected: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    payer: Payer | None = None
    scheduler_name: str = ""
    node_rules: str = ""

    @property
    def pod_key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.pod_name}"

    @property
    def is_worth_keeping(self) -> bool:
        """Whether it waits for a node, or holds devices, or should but cannot be read."""
        if self.is_ended:
            return False
        return not self.node_name or self.allocation is not None or bool(self.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNote:
    """What a node says of its devices.

    Attributes:
        inventory_text: as registered; None where nothing is.
        is_offered: whether its kubelet has slots to give. None at all means that the device
            plugin is away, and a pod sent there would be refused for good.
        host: what it has for pods in all; None where it does not say.
        links: how well its devices are linked; empty where it does not say, or cannot be read.
    """

    node_name: str
    inventory_text: str | None
    cordoned: frozenset[DeviceUuid]
    is_offered: bool = True
    host: HostAmount | None = None
    links: Mapping[DeviceUuid, Mapping[DeviceUuid, int]] = field(default_factory=dict)


def read_pod(pod: JsonObject, *, names: ResourceNames, defaults: RequestDefaults) -> PodRecord:
    """The record of a pod as the API server sends it."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    node_name = spec.get("nodeName") or ""
    is_ended = has_ended(pod)
    request = allocation = payer = None
    problem = ""
    try:
        if node_name and not is_ended:
            allocation = read_allocation(pod, names=names)
        elif not is_ended:
            request = decode_pod_request(pod, names=names, defaults=defaults)
        if request is not None or allocation is not None:
            payer = decode_payer(pod)
    except (AnnotationError, RequestError) as error:
        problem = shortened(str(error), longest=_LONGEST_PROBLEM)
        allocation = _feared(pod, node_name) if node_name else None
    return PodRecord(
        pod_uid=meta["uid"],
        namespace=meta.get("namespace", ""),
        pod_name=meta["name"],
        node_name=node_name,
        request=request,
        allocation=allocation,
        problem=problem,
        host=NO_HOST if is_ended else decode_pod_host(pod),
        is_ended=is_ended,
        is_initialized=_is_initialized(spec, status),
        priority=spec.get("priority") or 0,
        created_at=meta.get("creationTimestamp") or "",
        started_at=status.get("startTime") or meta.get("creationTimestamp") or "",
        leaves_at=meta.get("deletionTimestamp") or "",
        grace_s=_grace_s(spec),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        is_protected=_is_protected(meta, spec),
        labels=(meta.get("labels") or {}) if node_name else {},
        payer=payer,
        scheduler_name=sys.intern(spec.get("schedulerName") or ""),
        node_rules=_node_rules(spec) if request is not None else "",
    )


def _node_rules(spec: JsonObject) -> str:
    return sys.intern(dumps({rule: spec[rule] for rule in _NODE_RULES if rule in spec}).decode())


def _feared(pod: JsonObject, node_name: str) -> PodAllocation | None:
    uuids = devices_feared(pod)
    if not uuids:
        return None
    shares = (
        DeviceShare(device_uuid=uuid, memory_mib=0, core_percent=WHOLE_DEVICE_PERCENT)
        for uuid in uuids
    )
    container = ContainerAllocation(container_name="", kind=ContainerKind.APP, shares=tuple(shares))
    return PodAllocation(
        pod_uid=pod["metadata"]["uid"], node_name=node_name, containers=(container,)
    )


def unless_lost(record: PodRecord, before: PodRecord | None) -> PodRecord:
    """The record; where it cannot be read any more, with what was known of the same pod."""
    if not record.problem or before is None or before.allocation is None:
        return record
    return replace(record, allocation=before.allocation, payer=before.payer)


def _grace_s(spec: JsonObject) -> int:
    found = spec.get("terminationGracePeriodSeconds")
    return int(found) if found is not None else 30


def _is_protected(meta: JsonObject, spec: JsonObject) -> bool:
    return (
        meta.get("namespace") == _SYSTEM_NAMESPACE
        or (spec.get("priority") or 0) >= _SYSTEM_PRIORITY
        or _MIRROR in (meta.get("annotations") or {})
    )


def read_node(node: JsonObject, *, names: ResourceNames) -> NodeNote:
    """What the node says of its devices."""
    meta = node["metadata"]
    # A kubelet that knows the plugin states its slots, if only as 0; one that never did does not.
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    annotations = meta.get("annotations") or {}
    text = annotations.get(wire.NODE_REGISTER)
    if text is None:
        text = annotations.get(wire.NODE_REGISTER_4PD)
    return NodeNote(
        node_name=meta["name"],
        inventory_text=text,
        cordoned=decode_cordon(annotations.get(wire.DEVICE_CORDON, "")),
        is_offered=str(allocatable.get(names.count, "")) != "0",
        host=decode_node_host(node),
        links=_links(annotations.get(wire.NODE_SCORE, "")),
    )


@lru_cache(maxsize=1_024)
def _links(text: str) -> Mapping[DeviceUuid, Mapping[DeviceUuid, int]]:
    """No reason to keep pods away: without scores, any set of devices is as good as another."""
    try:
        return decode_link_scores(text) if text else {}
    except AnnotationError as error:
        log.warning("link scores malformed", error=error.message, hint=error.hint)
        return {}


def _is_initialized(spec: JsonObject, status: JsonObject) -> bool:
    """Whether the init phase is over: by the pod's condition, or by its containers' states."""
    if any(
        condition.get("type") == "Initialized" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    ):
        return True
    plain = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") != "Always"
    }
    done = {
        entry.get("name")
        for entry in status.get("initContainerStatuses") or ()
        if ((entry.get("state") or {}).get("terminated") or {}).get("exitCode") == 0
    }
    return bool(plain) and plain <= done
