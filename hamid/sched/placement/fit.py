"""Whether a share fits on a device, and everything that stands against it.

Reasons are of two kinds. Some speak of the device itself (health, cordon, model, uuid, index,
mode): they carry no numbers. The others compare amounts: `requested` is what the container asks of
the device, `used` what is promised on it at the same time, other containers of the pod included.

`EXCLUSIVITY` carries the core percent asked, the slots in use, and capacity 0: with 100 asked
the device would have to be free of others; with less, another container holds it whole.

A container that asks for no cores still does not come onto a device whose cores are all
promised: it would run on what others were promised (HAMi refuses it, too).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from hamid.model.device import WHOLE_DEVICE_PERCENT, DeviceShare, model_matches
from hamid.model.quantities import resolve_memory_mib
from hamid.model.request import ANY_DEVICE
from hamid.model.shortfall import Resource, Shortfall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.model.device import Device, DeviceUsage
    from hamid.model.quantities import MemoryRequest
    from hamid.model.request import DeviceSelection


class Amounts(Protocol):
    """What is asked of each device: a `ContainerRequest`, or the ask of a typical shape."""

    @property
    def memory(self) -> MemoryRequest:
        """Of the device's memory."""
        ...

    @property
    def core_percent(self) -> int:
        """Of the device's cores."""
        ...


class Wishes(Protocol):
    """Which devices are allowed: a `PodRequest`, or the ask of a typical shape."""

    @property
    def selection(self) -> DeviceSelection:
        """By model, UUID and index."""
        ...

    @property
    def allowed_modes(self) -> tuple[str, ...]:
        """By mode; empty allows all."""
        ...


UNCHANGEABLE: Final = frozenset({Resource.MODEL, Resource.UUID, Resource.INDEX, Resource.MODE})
"""Reasons that stay, whoever leaves the device."""

OF_THE_DEVICE: Final = UNCHANGEABLE | {Resource.HEALTH, Resource.CORDON}
"""Reasons that have no amounts."""


def share_on(device: Device, request: Amounts) -> DeviceShare:
    """What the container would get on this device."""
    return DeviceShare(
        device_uuid=device.device_uuid,
        memory_mib=resolve_memory_mib(request.memory, device_memory_mib=device.memory_mib),
        core_percent=request.core_percent,
    )


def shortfalls(
    usage: DeviceUsage, share: DeviceShare, *, request: Wishes, is_cordoned: bool = False
) -> tuple[Shortfall, ...]:
    """Everything this device lacks for the share; empty means that it fits.

    Args:
        usage: the device with all that is promised on it at the same time.
        share: see `share_on`.
        request: whose selection and modes count.
        is_cordoned: the operator keeps the device free of new pods.
    """
    device, selection = usage.device, request.selection
    if (
        device.is_healthy
        and not is_cordoned
        and not request.allowed_modes
        and (selection is ANY_DEVICE or selection == ANY_DEVICE)
    ):
        return tuple(_amount_reasons(usage, share))
    return (
        *_device_reasons(device, request, is_cordoned=is_cordoned),
        *_amount_reasons(usage, share),
    )


def copies(usage: DeviceUsage, ask: Amounts, *, request: Wishes, is_cordoned: bool = False) -> int:
    """How many shares of this size the device takes at once; see `shortfalls`."""
    share = share_on(usage.device, ask)
    if shortfalls(usage, share, request=request, is_cordoned=is_cordoned):
        return 0
    if share.core_percent >= WHOLE_DEVICE_PERCENT:
        return 1
    most = min(usage.slots_free, usage.memory_free_mib // max(share.memory_mib, 1))
    if share.core_percent:
        most = min(most, usage.core_free_percent // share.core_percent)
    return most


def _device_reasons(device: Device, request: Wishes, *, is_cordoned: bool) -> Iterator[Shortfall]:
    selection = request.selection
    if not device.is_healthy:
        yield Shortfall(resource=Resource.HEALTH, device_uuid=device.device_uuid)
    if is_cordoned:
        yield Shortfall(resource=Resource.CORDON, device_uuid=device.device_uuid)
    if (selection.use_models or selection.avoid_models) and not is_model_allowed(
        device.model, selection
    ):
        yield Shortfall(resource=Resource.MODEL, device_uuid=device.device_uuid)
    if (selection.use_uuids and device.device_uuid not in selection.use_uuids) or (
        device.device_uuid in selection.avoid_uuids
    ):
        yield Shortfall(resource=Resource.UUID, device_uuid=device.device_uuid)
    if selection.use_indices and device.device_index not in selection.use_indices:
        yield Shortfall(resource=Resource.INDEX, device_uuid=device.device_uuid)
    if request.allowed_modes and device.mode not in request.allowed_modes:
        yield Shortfall(resource=Resource.MODE, device_uuid=device.device_uuid)


def _amount_reasons(usage: DeviceUsage, share: DeviceShare) -> Iterator[Shortfall]:
    device = usage.device
    if usage.slots_used >= device.slot_count:
        yield Shortfall(
            resource=Resource.SLOTS,
            requested=1,
            used=usage.slots_used,
            capacity=device.slot_count,
            device_uuid=device.device_uuid,
        )
    if usage.memory_used_mib + share.memory_mib > device.memory_mib:
        yield Shortfall(
            resource=Resource.MEMORY_MIB,
            requested=share.memory_mib,
            used=usage.memory_used_mib,
            capacity=device.memory_mib,
            device_uuid=device.device_uuid,
        )
    if (
        usage.core_used_percent + share.core_percent > device.core_percent
        or 0 < device.core_percent <= usage.core_used_percent
    ):
        yield Shortfall(
            resource=Resource.CORE_PERCENT,
            requested=share.core_percent,
            used=usage.core_used_percent,
            capacity=device.core_percent,
            device_uuid=device.device_uuid,
        )
    is_whole_asked = share.core_percent >= WHOLE_DEVICE_PERCENT
    if (is_whole_asked and usage.slots_used) or usage.exclusive_count:
        yield Shortfall(
            resource=Resource.EXCLUSIVITY,
            requested=share.core_percent,
            used=usage.slots_used,
            device_uuid=device.device_uuid,
        )


def is_model_allowed(model: str, selection: DeviceSelection) -> bool:
    """Whether the author of the pod allows this model; see `model_matches`."""
    if selection.use_models and not any(_matches(wish, model) for wish in selection.use_models):
        return False
    return not any(_matches(wish, model) for wish in selection.avoid_models)


_matches = lru_cache(maxsize=4096)(model_matches)
"""Few patterns meet few models, each of them thousands of times."""
