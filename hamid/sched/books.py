"""The account of one node: its devices and its host, who holds what of them, and the sums.

Adding or removing a pod, or the devices themselves, costs what the node's cards cost, however
many pods and nodes there are. Holds on devices that the node does not register (a card taken
out, a node that has not registered yet) are kept, and count as soon as the device is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hamid.model.device import DeviceUsage
from hamid.model.node import NO_HOST, NodeSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from hamid.model.device import Device, DeviceHold, DeviceUuid
    from hamid.model.node import HostAmount


LinkScores = Mapping["DeviceUuid", Mapping["DeviceUuid", int]]
"""Device, other device, score."""


class _Sum:
    """What is promised on one device."""

    __slots__ = ("core_percent", "exclusive_count", "memory_mib", "slots")

    def __init__(self) -> None:
        self.slots = self.memory_mib = self.core_percent = self.exclusive_count = 0

    def add(self, hold: DeviceHold, sign: int) -> None:
        self.slots += sign * hold.slots
        self.memory_mib += sign * hold.memory_mib
        self.core_percent += sign * hold.core_percent
        self.exclusive_count += sign * hold.is_exclusive


class NodeBook:
    """The books of one node; one owner changes them, readers take snapshots.

    Attributes:
        version: grows with each change of what a snapshot shows.

    Args:
        freed: told the node's name whenever a change may have left more room than there was.
        changed: told the node's name whenever a snapshot would show something else.
    """

    __slots__ = (
        "_changed",
        "_cordoned",
        "_devices",
        "_freed",
        "_holds",
        "_host",
        "_host_asked",
        "_host_by_pod",
        "_links",
        "_snapshot",
        "_sums",
        "node_name",
        "version",
    )

    def __init__(
        self,
        node_name: str,
        *,
        freed: Callable[[str], None] | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        self.node_name = node_name
        self.version = 0
        self._freed = freed
        self._changed = changed
        self._devices: tuple[Device, ...] = ()
        self._cordoned: frozenset[DeviceUuid] = frozenset()
        self._holds: dict[str, Mapping[DeviceUuid, DeviceHold]] = {}
        self._sums: dict[DeviceUuid, _Sum] = {}
        self._host: HostAmount | None = None
        self._host_by_pod: dict[str, HostAmount] = {}
        self._host_asked = NO_HOST
        self._links: LinkScores = {}
        self._snapshot: NodeSnapshot | None = None

    @property
    def is_held(self) -> bool:
        """Whether any pod holds anything here."""
        return bool(self._holds or self._host_by_pod)

    def register(self, devices: tuple[Device, ...]) -> None:
        """Take these devices for those of the node."""
        if devices != self._devices:
            self._devices = devices
            self._change(leaves_more=True)

    def cordon(self, uuids: frozenset[DeviceUuid]) -> None:
        """Keep these devices, and no others, free of new pods."""
        if uuids != self._cordoned:
            self._cordoned = uuids
            self._change(leaves_more=True)

    def offer(self, host: HostAmount | None) -> None:
        """Take this for what the host has for pods in all; None where it is not known."""
        if host != self._host:
            self._host = host
            self._change(leaves_more=True)

    def link(self, scores: LinkScores) -> None:
        """Take these for how well its devices are linked; empty where it is not known."""
        if scores != self._links:
            self._links = scores
            self._change()

    def ask(self, pod_uid: str, host: HostAmount) -> None:
        """Let the pod ask this of the host, instead of what it asked."""
        before = self._host_by_pod.get(pod_uid, NO_HOST)
        self._host_by_pod[pod_uid] = host
        self._sum_host(before, host)

    def unask(self, pod_uid: str) -> None:
        """Let the pod ask nothing of the host."""
        self._sum_host(self._host_by_pod.pop(pod_uid, NO_HOST), NO_HOST)

    def _sum_host(self, before: HostAmount, after: HostAmount) -> None:
        if after != before:
            self._host_asked = self._host_asked - before + after
            self._change(leaves_more=before != NO_HOST)

    def hold(self, pod_uid: str, holds: Mapping[DeviceUuid, DeviceHold]) -> None:
        """Let the pod hold this, instead of what it held."""
        before = self._holds.get(pod_uid)
        if holds == before:
            return
        self._drop(pod_uid)
        self._holds[pod_uid] = holds
        for uuid, hold in holds.items():
            self._sums.setdefault(uuid, _Sum()).add(hold, 1)
        self._change(leaves_more=before is not None)

    def release(self, pod_uid: str) -> None:
        """Let the pod hold nothing."""
        if pod_uid in self._holds:
            self._drop(pod_uid)
            self._change(leaves_more=True)

    def _drop(self, pod_uid: str) -> None:
        for uuid, hold in self._holds.pop(pod_uid, {}).items():
            total = self._sums[uuid]
            total.add(hold, -1)
            if not total.slots:
                del self._sums[uuid]

    def snapshot(self) -> NodeSnapshot:
        """The node as it is now; the same value until something changes."""
        if self._snapshot is None:
            self._snapshot = NodeSnapshot(
                node_name=self.node_name,
                usages=tuple(self._usage(device) for device in self._devices),
                cordoned=self._cordoned,
                host_free=None if self._host is None else self._host - self._host_asked,
                host_capacity=self._host,
                links=self._matrix(),
            )
        return self._snapshot

    def emptied(self) -> NodeSnapshot:
        """The node as it would be if nobody held anything of it."""
        return NodeSnapshot(
            node_name=self.node_name,
            usages=tuple(DeviceUsage(device=device) for device in self._devices),
            cordoned=self._cordoned,
            host_free=self._host,
            host_capacity=self._host,
            links=self._matrix(),
        )

    def _matrix(self) -> tuple[tuple[int, ...], ...]:
        """The scores in the order of the devices; a pair that nothing is said of has 0."""
        if not self._links:
            return ()
        uuids = [device.device_uuid for device in self._devices]
        return tuple(
            tuple(self._links.get(one, {}).get(other, 0) for other in uuids) for one in uuids
        )

    def _usage(self, device: Device) -> DeviceUsage:
        total = self._sums.get(device.device_uuid)
        if total is None:
            return DeviceUsage(device=device)
        return DeviceUsage(
            device=device,
            slots_used=total.slots,
            memory_used_mib=total.memory_mib,
            core_used_percent=total.core_percent,
            exclusive_count=total.exclusive_count,
        )

    def _change(self, *, leaves_more: bool = False) -> None:
        self.version += 1
        self._snapshot = None
        if self._changed is not None:
            self._changed(self.node_name)
        if leaves_more and self._freed is not None:
            self._freed(self.node_name)
