"""What pods were given, and what that takes of each device.

How containers of one pod add up on a device (the rule of Kubernetes for init containers,
KEP-753 for restartable ones):

    i1 (init) 10, s1 (sidecar) 3, i2 (init) 4, app 8
    init phase: max(10, 3 + 4) = 10; afterwards: 3 + 8 = 11; the pod holds 11
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from hamid.model.device import WHOLE_DEVICE_PERCENT, DeviceHold
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hamid.model.device import DeviceShare, DeviceUuid


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

    def holds(self, *, is_initialized: bool = False) -> Mapping[DeviceUuid, DeviceHold]:
        """What the pod takes of each device that it takes anything of.

        Args:
            is_initialized: its init phase is over, so that plain init containers hold nothing.
        """
        uuids = {share.device_uuid for c in self.containers for share in c.shares}
        taken = {uuid: self._hold(uuid, is_initialized=is_initialized) for uuid in sorted(uuids)}
        return {uuid: hold for uuid, hold in taken.items() if hold.slots}

    def _hold(self, uuid: DeviceUuid, *, is_initialized: bool) -> DeviceHold:
        def peak(amount: Callable[[DeviceShare], int]) -> int:
            return self._peak(uuid, amount, is_initialized=is_initialized)

        return DeviceHold(
            slots=peak(lambda _: 1),
            memory_mib=peak(lambda share: share.memory_mib),
            core_percent=peak(lambda share: share.core_percent),
            is_exclusive=peak(lambda s: int(s.core_percent >= WHOLE_DEVICE_PERCENT)) > 0,
        )

    def _peak(
        self, uuid: DeviceUuid, amount: Callable[[DeviceShare], int], *, is_initialized: bool
    ) -> int:
        peak = sidecars = apps = 0
        for container in self.containers:
            taken = sum(amount(share) for share in container.shares if share.device_uuid == uuid)
            match container.kind:
                case ContainerKind.INIT:
                    if not is_initialized:
                        peak = max(peak, sidecars + taken)
                case ContainerKind.SIDECAR:
                    sidecars += taken
                    peak = max(peak, sidecars)
                case ContainerKind.APP:
                    apps += taken
                case _:
                    assert_never(container.kind)
        return max(peak, sidecars + apps)
