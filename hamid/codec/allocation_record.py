"""Our own record of what a pod was given: the annotation that our parts trust.

It names the pod's UID and node, and keys the shares by container name, so it survives what
positions do not: containers that other webhooks insert, and pods that are made anew under the
same name. Compact JSON, in version 1:

    {"version": 1, "pod_uid": "…", "node": "…", "containers": {
      "train": {"kind": "app", "priority": 0, "shares": [
        {"uuid": "GPU-…", "memory_mib": 3000, "core_percent": 30}]}}}

Containers stand in the order of the spec; `priority` is left out where nothing was said. Reading
is strict: keys that are not known are refused, for a version that adds some must say so.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import (
    ShapeError,
    as_int,
    as_list,
    as_object,
    as_text,
    dumps,
    loads_object,
    quoted,
)
from hamid.codec.pod import pod_containers, pod_meta
from hamid.codec.pod_annotation import ContainerSlot, decode_hami_allocation
from hamid.errors import AnnotationError
from hamid.model import names as wire
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import DeviceShare, DeviceUuid
from hamid.model.names import ResourceNames
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from hamid.codec.jsontext import JsonObject
    from hamid.codec.pod import PodContainer, PodMeta

VERSION: Final = 1

_DEFAULT_NAMES: Final = ResourceNames()
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")
_MAX_WORDS: Final = 1_000


def encode_allocation(allocation: PodAllocation) -> str:
    """The record of the allocation, in the current version."""
    return dumps(
        {
            "version": VERSION,
            "pod_uid": allocation.pod_uid,
            "node": allocation.node_name,
            "containers": {c.container_name: _encode_container(c) for c in allocation.containers},
        }
    ).decode()


def decode_allocation(text: str) -> PodAllocation:
    """The allocation that the record tells of.

    Raises:
        AnnotationError: it cannot be read, or is of a version that this release does not know.
    """
    try:
        record = loads_object(text)
        version = as_int(record.get("version"), what="version")
        if version != VERSION:
            raise AnnotationError(
                f"annotation {wire.POD_ALLOCATION} is of version {version}; "
                f"this release reads version {VERSION}",
                hint="a newer hamid wrote it; upgrade this one, or roll the cluster back as a whole",
            )
        return _decode_record(record)
    except ShapeError as error:
        raise AnnotationError(
            f"annotation {wire.POD_ALLOCATION} cannot be read: {error}: {quoted(text)}",
            hint="somebody else changed it; delete the pod so that it is placed afresh",
        ) from error


def read_allocation(
    pod: JsonObject, *, names: ResourceNames = _DEFAULT_NAMES
) -> PodAllocation | None:
    """What the pod holds on the node that it is bound to, or None when it holds nothing.

    A pod without our record that HAMi placed is read from HAMi's annotations, provided that it
    is bound to the node that they name: a decision that never led to a binding holds nothing.

    Raises:
        AnnotationError: the record cannot be read, or is another pod's or another node's.
    """
    meta = pod_meta(pod)
    text = meta.annotations.get(wire.POD_ALLOCATION)
    if text is None:
        return _read_hami(pod, meta, names)
    allocation = decode_allocation(text)
    if (allocation.pod_uid, allocation.node_name) != (meta.uid, meta.node_name):
        raise AnnotationError(
            f"pod {meta.namespace}/{meta.name}: annotation {wire.POD_ALLOCATION} is for UID "
            f"{allocation.pod_uid!r} on node {allocation.node_name!r}, but the pod has UID "
            f"{meta.uid!r} on node {meta.node_name!r}",
            hint="it was copied from another pod; delete this pod and create it without it",
        )
    return allocation


def devices_feared(pod: JsonObject) -> tuple[DeviceUuid, ...]:
    """What may be UUIDs in records of the pod that cannot be read: it may hold these devices.

    More than those: any word of the text is taken for one. Of a record that can be read, but is
    another pod's, none.
    """
    meta = pod_meta(pod)
    texts = [meta.annotations.get(key, "") for key in (wire.POD_ALLOCATION, wire.POD_ALLOCATED)]
    try:
        decode_allocation(texts[0])
    except AnnotationError:
        words = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
        return tuple(DeviceUuid(word) for word in islice(words, _MAX_WORDS))
    return ()


def _read_hami(pod: JsonObject, meta: PodMeta, names: ResourceNames) -> PodAllocation | None:
    text = meta.annotations.get(wire.POD_ALLOCATED)
    if text is None or not meta.node_name or meta.annotations.get(wire.POD_NODE) != meta.node_name:
        return None
    slots = [
        ContainerSlot(c.name, c.kind, asks=_asks(c, names))
        for c in pod_containers(pod)
        if c.kind is not None
    ]
    containers = decode_hami_allocation(text, containers=slots)
    if not containers:
        return None
    return PodAllocation(pod_uid=meta.uid, node_name=meta.node_name, containers=containers)


def _asks(container: PodContainer, names: ResourceNames) -> bool:
    asking = (names.count, names.memory, names.memory_percentage, names.cores)
    return any(
        amounts.get(name) not in (None, "0", 0)
        for amounts in (container.limits, container.requests)
        for name in asking
    )


def _encode_container(container: ContainerAllocation) -> JsonObject:
    entry: JsonObject = {"kind": container.kind.value}
    if container.priority is not None:
        entry["priority"] = container.priority
    entry["shares"] = [
        {
            "uuid": share.device_uuid,
            "memory_mib": share.memory_mib,
            "core_percent": share.core_percent,
        }
        for share in container.shares
    ]
    return entry


def _decode_record(record: JsonObject) -> PodAllocation:
    _known(record, {"version", "pod_uid", "node", "containers"}, what="the record")
    containers = as_object(record.get("containers"), what="containers")
    return PodAllocation(
        pod_uid=as_text(record.get("pod_uid"), what="pod_uid"),
        node_name=as_text(record.get("node"), what="node"),
        containers=tuple(_decode_container(name, value) for name, value in containers.items()),
    )


def _decode_container(name: str, value: object) -> ContainerAllocation:
    what = f"container {as_text(name, what='a container name')!r}"
    entry = as_object(value, what=what)
    _known(entry, {"kind", "priority", "shares"}, what=what)
    kind = as_text(entry.get("kind"), what=f"{what}: kind")
    if kind not in tuple(ContainerKind):
        raise ShapeError(f"{what}: kind is {quoted(kind)}; known are {', '.join(ContainerKind)}")
    priority = entry.get("priority")
    return ContainerAllocation(
        container_name=name,
        kind=ContainerKind(kind),
        shares=tuple(
            _decode_share(share, what=f"{what}: share {index}")
            for index, share in enumerate(as_list(entry.get("shares"), what=f"{what}: shares"))
        ),
        priority=None if priority is None else as_int(priority, what=f"{what}: priority"),
    )


def _decode_share(value: object, *, what: str) -> DeviceShare:
    share = as_object(value, what=what)
    _known(share, {"uuid", "memory_mib", "core_percent"}, what=what)
    return DeviceShare(
        device_uuid=DeviceUuid(as_text(share.get("uuid"), what=f"{what}: uuid")),
        memory_mib=as_int(share.get("memory_mib"), what=f"{what}: memory_mib"),
        core_percent=as_int(share.get("core_percent"), what=f"{what}: core_percent"),
    )


def _known(entry: JsonObject, keys: set[str], *, what: str) -> None:
    unknown = sorted(set(entry) - keys)
    if unknown:
        raise ShapeError(f"{what} has the unknown key {quoted(unknown[0])}")
