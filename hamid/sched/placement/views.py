"""The devices of a node as the containers of a pod find them, one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hamid.model.device import DeviceShare, DeviceUsage, DeviceUuid
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest


@dataclass(frozen=True, slots=True)
class Views:
    """Each device as the next container would find it: its index is that of the node's usages.

    Attributes:
        init: others' pods and this pod's sidecars.
        app: those, and this pod's app containers.
        reusable: devices of plain init containers that no later container took over.
    """

    init: tuple[DeviceUsage, ...]
    app: tuple[DeviceUsage, ...]
    reusable: frozenset[DeviceUuid] = frozenset()

    def of(self, kind: ContainerKind) -> tuple[DeviceUsage, ...]:
        """As a container of this kind would find them."""
        return self.init if kind is ContainerKind.INIT else self.app

    def with_shares(self, kind: ContainerKind, shares: tuple[DeviceShare, ...]) -> Views:
        """As the next one finds them, once a container of this kind was given these shares."""
        uuids = {share.device_uuid for share in shares}
        if kind is ContainerKind.INIT:
            return replace(self, reusable=self.reusable | uuids)
        app = _with_shares(self.app, shares)
        init = _with_shares(self.init, shares) if kind is ContainerKind.SIDECAR else self.init
        return Views(init=init, app=app, reusable=self.reusable - uuids)


def usages_found(
    request: PodRequest, node: NodeSnapshot, given: Sequence[tuple[DeviceShare, ...]]
) -> tuple[DeviceUsage, ...]:
    """The devices as the next container finds them, once those before it were given theirs.

    Args:
        request: whose containers they are.
        node: as it was before any of them.
        given: the shares of the first containers, in the order of the request.
    """
    views = Views(init=node.usages, app=node.usages)
    for container, shares in zip(request.requests, given, strict=False):
        views = views.with_shares(container.kind, shares)
    return views.of(request.requests[len(given)].kind)


def do_in_turn(
    request: PodRequest,
    usages: tuple[DeviceUsage, ...],
    given: Sequence[tuple[DeviceShare, ...]],
    lacks: Callable[[DeviceUsage, DeviceShare], object],
) -> bool:
    """Whether each container finds its devices after those before it.

    Args:
        request: whose containers they are.
        usages: the devices as they were before any of them.
        given: the shares of all containers.
        lacks: true where a device does not do for a share.
    """
    views = Views(init=usages, app=usages)
    for container, shares in zip(request.requests, given, strict=True):
        by_uuid = {usage.device.device_uuid: usage for usage in views.of(container.kind)}
        if any(lacks(by_uuid[share.device_uuid], share) for share in shares):
            return False
        views = views.with_shares(container.kind, shares)
    return True


def _with_shares(
    usages: tuple[DeviceUsage, ...], shares: tuple[DeviceShare, ...]
) -> tuple[DeviceUsage, ...]:
    by_uuid = {share.device_uuid: share for share in shares}
    return tuple(
        usage.with_share(share) if (share := by_uuid.get(usage.device.device_uuid)) else usage
        for usage in usages
    )


def amounts(usage: DeviceUsage) -> tuple[int, ...]:
    """All that is promised on the device."""
    return (usage.slots_used, usage.memory_used_mib, usage.core_used_percent, usage.exclusive_count)
