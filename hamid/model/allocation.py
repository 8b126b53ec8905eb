"""What pods were given, and what that takes of each device.

How containers of one pod add up on a device (the rule of Kubernetes for init containers,
KEP-753 for restartable ones):

    i1 (init) 10, s1 (sidecar) 3, i2 (init) 4, app 8
    init phase: max(10, 3 + 4) = 10; afterwards: 3 + 8 = 11; the pod holds 11
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, assert_never

from hamid.model.device import NO_HOLD
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hamid.model.device import DeviceHold, DeviceShare, DeviceUuid


class Amount(Protocol):
    """What containers take of something."""

    def __add__(self, other: Self, /) -> Self:
        """What both take at the same time."""
        ...

    def most(self, other: Self, /) -> Self:
        """What covers either."""
        ...


A = TypeVar("A", bound=Amount)


def peak(
    containers: Iterable[tuple[ContainerKind, A]], *, nothing: A, is_initialized: bool = False
) -> A:
    """The most that the containers of a pod take at any moment; see the module.

    Args:
        containers: what each takes, in the order of the spec, init containers first.
        nothing: what none takes.
        is_initialized: the init phase is over, so that plain init containers take nothing.
    """
    init = sidecars = apps = nothing
    for kind, taken in containers:
        match kind:
            case ContainerKind.INIT:
                if not is_initialized:
                    init = init.most(sidecars + taken)
            case ContainerKind.SIDECAR:
                sidecars = sidecars + taken
            case ContainerKind.APP:
                apps = apps + taken
            case _:
                assert_never(kind)
    return init.most(sidecars + apps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAllocation:
    """The shares of one container, one per device, in the order of choice."""

    container_name: str
    kind: ContainerKind
    shares: tuple[DeviceShare, ...]
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAllocation:
    """What one pod was given on one node; containers without devices do not appear.

    Attributes:
        pod_uid: the pod it was decided for; an allocation for another UID counts for nothing.
        containers: in the order of the spec, init containers first.
    """

    pod_uid: str
    node_name: str
    containers: tuple[ContainerAllocation, ...]

    def container(self, name: str) -> ContainerAllocation | None:
        """The container's allocation, if it has one."""
        return next((c for c in self.containers if c.container_name == name), None)

    @property
    def device_uuids(self) -> frozenset[DeviceUuid]:
        """The devices that any of its containers gets a share of."""
        return frozenset(share.device_uuid for c in self.containers for share in c.shares)

    def holds(self, *, is_initialized: bool = False) -> Mapping[DeviceUuid, DeviceHold]:
        """What the pod takes of each device that it takes anything of.

        Args:
            is_initialized: its init phase is over, so that plain init containers hold nothing.
        """
        taken: dict[DeviceUuid, list[tuple[ContainerKind, DeviceHold]]] = {}
        for container in self.containers:
            for uuid, hold in _holds(container.shares).items():
                taken.setdefault(uuid, []).append((container.kind, hold))
        peaks = (
            (uuid, peak(taken[uuid], nothing=NO_HOLD, is_initialized=is_initialized))
            for uuid in sorted(taken)
        )
        return {uuid: hold for uuid, hold in peaks if hold.slots}


def _holds(shares: Iterable[DeviceShare]) -> dict[DeviceUuid, DeviceHold]:
    """What one container takes of each device; HAMi's text may give it one device twice."""
    holds: dict[DeviceUuid, DeviceHold] = {}
    for share in shares:
        holds[share.device_uuid] = holds.get(share.device_uuid, NO_HOLD) + share.hold
    return holds
