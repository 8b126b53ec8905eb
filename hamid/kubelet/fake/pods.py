"""Pods and their states, as far as the fake kubelet needs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeContainer:
    """A container that asks for `count` slots; a sidecar is an init container that stays."""

    name: str = "main"
    count: int = 0
    is_init: bool = False
    is_sidecar: bool = False
    resource_name: str = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePod:
    """A pod as it comes from the API server, bound to this node."""

    namespace: str = "default"
    name: str
    uid: str
    containers: tuple[FakeContainer, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_start_order(self) -> tuple[FakeContainer, ...]:
        """Init containers and sidecars in their order, then the others."""
        first = tuple(c for c in self.containers if c.is_init or c.is_sidecar)
        return first + tuple(c for c in self.containers if not (c.is_init or c.is_sidecar))

    def container(self, name: str) -> FakeContainer:
        """Return the container of that name."""
        return next(container for container in self.containers if container.name == name)


class Phase(StrEnum):
    """A pod's phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ContainerState(StrEnum):
    """A container's state, with the kubelet's reasons for waiting."""

    WAITING = "PodInitializing"
    CONFIG_ERROR = "CreateContainerConfigError"
    RUNNING = "Running"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeContainerStatus:
    """One container's state, and how often it was started."""

    state: ContainerState = ContainerState.WAITING
    message: str = ""
    start_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePodStatus:
    """What the kubelet would write into the pod's status."""

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    containers: Mapping[str, FakeContainerStatus] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in {Phase.SUCCEEDED, Phase.FAILED}
