"""Ports of the kubelet that say what a test tells them to; nothing of a real one is imitated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hamid.errors import KubeletError
    from hamid.kubelet.port import CheckpointEntry, PodDevices


@dataclass(slots=True, kw_only=True)
class FakeCheckpoint:
    """`CheckpointPort` with the given entries, or the given error."""

    entries: list[CheckpointEntry] = field(default_factory=list)
    error: KubeletError | None = None

    async def read(self) -> tuple[CheckpointEntry, ...]:
        """The entries."""
        if self.error is not None:
            raise self.error
        return tuple(self.entries)


@dataclass(slots=True, kw_only=True)
class FakePodResources:
    """`PodResourcesPort` with the given pods, or the given error."""

    pods: list[PodDevices] = field(default_factory=list)
    error: KubeletError | None = None
    can_get: bool = True

    async def list(self) -> tuple[PodDevices, ...]:
        """The pods."""
        if self.error is not None:
            raise self.error
        return tuple(self.pods)

    async def get(self, namespace: str, name: str) -> PodDevices | None:
        """The pod of this name."""
        pods = await self.list()
        return next((p for p in pods if (p.namespace, p.name) == (namespace, name)), None)
