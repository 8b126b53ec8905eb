"""What a pod was given, in HAMi's words: its tools and dashboards read them.

    device     uuid,NVIDIA,memory MiB,core percent:
    container  its devices, one after another, then `;`
    pod        its containers, init first, then app; one without devices is just `;`

Our own parts trust `allocation_record` instead, which keys by name and not by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.codec.jsontext import INT32_MAX, ShapeError, is_number, quoted
from hamid.errors import AnnotationError
from hamid.model import names as wire
from hamid.model.allocation import ContainerAllocation
from hamid.model.device import DeviceShare, DeviceUuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.request import ContainerKind

BIND_PHASE_SUCCESS: Final = "success"

_CONTAINER_END: Final = ";"
_DEVICE_END: Final = ":"
_FIELD: Final = ","
_FIELD_COUNT: Final = 4
_LABEL_LENGTH_MAX: Final = 63
"""A node's name may have 253 characters; of those that it may have, a label may have all."""


class ContainerSlot(NamedTuple):
    """A container that HAMi's text may speak of: its name, its kind, whether it asks."""

    name: str
    kind: ContainerKind
    asks: bool


def encode_hami_annotations(
    allocation: PodAllocation, *, container_names: tuple[str, ...], decided_at_s: int
) -> dict[str, str]:
    """HAMi's annotations for the allocation, in their final form.

    The binding that carries them is the whole hand-over: so the devices that are still to be
    given out are blank, and the phase is `success`, as after HAMi's device plugin.

    Args:
        allocation: of one pod.
        container_names: all containers, init first, as in the spec.
        decided_at_s: seconds since the epoch.
    """
    missing = {c.container_name for c in allocation.containers} - set(container_names)
    if missing:
        raise ValueError(f"the pod has no container {', '.join(map(repr, sorted(missing)))}")
    segments = [_encode_container(allocation.container(name)) for name in container_names]
    return {
        wire.POD_NODE: allocation.node_name,
        wire.POD_TIME: str(decided_at_s),
        wire.POD_ALLOCATED: "".join(segments),
        wire.POD_TO_ALLOCATE: _CONTAINER_END * len(segments),
        wire.POD_BIND_TIME: str(decided_at_s),
        wire.POD_BIND_PHASE: BIND_PHASE_SUCCESS,
    }


def hami_labels(allocation: PodAllocation) -> dict[str, str]:
    """The label by which HAMi's monitor finds a node's pods; none where it cannot hold the name."""
    if len(allocation.node_name) > _LABEL_LENGTH_MAX:
        return {}
    return {wire.POD_NODE: allocation.node_name}


def decode_hami_allocation(
    text: str, *, containers: Sequence[tuple[str, ContainerKind, bool]]
) -> tuple[ContainerAllocation, ...]:
    """The shares that HAMi's text gives to each container; those without any do not appear.

    Some releases leave out the `;` of containers without devices. When there are fewer segments
    than containers, those with devices belong to the containers that ask, in their order.

    Args:
        text: the value of `vgpu-devices-allocated`.
        containers: (name, kind, whether it asks for devices) of each, init first, as in the spec.

    Raises:
        AnnotationError: it cannot be read, or speaks of other containers than the pod has.
    """
    try:
        segments = _segments(text)
        slots = _matched(segments, [ContainerSlot(*container) for container in containers])
    except ShapeError as error:
        raise AnnotationError(
            f"annotation {wire.POD_ALLOCATED} cannot be read: {error}: {quoted(text)}",
            hint="delete the pod; whatever owns it creates it anew and it is placed afresh",
        ) from error
    return tuple(
        ContainerAllocation(container_name=slot.name, kind=slot.kind, shares=shares)
        for slot, shares in slots
    )


def _encode_container(allocation: ContainerAllocation | None) -> str:
    shares = allocation.shares if allocation is not None else ()
    return "".join(_encode_share(share) for share in shares) + _CONTAINER_END


def _encode_share(share: DeviceShare) -> str:
    fields = (share.device_uuid, wire.VENDOR, str(share.memory_mib), str(share.core_percent))
    return _FIELD.join(fields) + _DEVICE_END


def _segments(text: str) -> list[tuple[DeviceShare, ...]]:
    parts = text.split(_CONTAINER_END)
    if not parts[-1].strip():
        parts.pop()  # what follows the last `;` is no container
    return [_decode_container(part) for part in parts]


def _matched(
    segments: list[tuple[DeviceShare, ...]], containers: list[ContainerSlot]
) -> list[tuple[ContainerSlot, tuple[DeviceShare, ...]]]:
    given = [shares for shares in segments if shares]
    if len(segments) < len(containers):
        asking = [container for container in containers if container.asks]
        if len(given) != len(asking):
            raise ShapeError(
                f"{len(given)} containers have devices, but {len(asking)} of the pod ask for them"
            )
        return list(zip(asking, given, strict=True))
    if any(segments[len(containers) :]):
        raise ShapeError(f"it gives devices to more than the pod's {len(containers)} containers")
    pairs = zip(containers, segments, strict=False)  # empty segments at the end do no harm
    return [(container, shares) for container, shares in pairs if shares]


def _decode_container(segment: str) -> tuple[DeviceShare, ...]:
    return tuple(
        share
        for text in segment.split(_DEVICE_END)
        if _FIELD in text and (share := _decode_share(text)) is not None
    )


def _decode_share(text: str) -> DeviceShare | None:
    fields = [part.strip() for part in text.split(_FIELD)]
    if len(fields) < _FIELD_COUNT:
        raise ShapeError(
            f"device {quoted(text)} has {len(fields)} fields; {_FIELD_COUNT} are needed"
        )
    uuid, vendor, memory, cores = fields[:_FIELD_COUNT]
    if not vendor.startswith(wire.VENDOR):
        return None  # old releases kept the devices of all vendors in one text
    uuid = uuid.partition("[")[0]  # HAMi 2.5 to 2.9 added the MIG slot as `uuid[template-slot]`
    if not uuid:
        raise ShapeError(f"device {quoted(text)} has no UUID")
    return DeviceShare(
        device_uuid=DeviceUuid(uuid),
        memory_mib=_amount(memory, text),
        core_percent=_amount(cores, text),
    )


def _amount(digits: str, text: str) -> int:
    if not is_number(digits, INT32_MAX):
        raise ShapeError(f"{quoted(digits)} in device {quoted(text)} is no amount")
    return int(digits)
