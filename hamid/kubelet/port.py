"""What the rest of hamid sees of the kubelet: plain values and four protocols.

No message of the kubelet's gRPC APIs and no exception of a library gets past this room; what goes
wrong is a `KubeletError` (`kubelet.errors`).

Two directions:

1. The kubelet calls us: whoever implements `DevicePluginHandler` is served by `kubelet.server`.
   Each call has a deadline of ours, for the kubelet admits no pod of the node while it waits.
   An error of `allocate` fails the pod for good; an error of `pre_start` is tried again.
2. We ask the kubelet: `PodResourcesPort`, `PodsApiPort`, `CheckpointPort`. They are three views of
   the same books; none of them is complete (each docstring says what it lacks).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.aiokit.latest import Latest


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedDevice:
    """One schedulable slot, as the kubelet is told of it.

    Attributes:
        slot_id: the kubelet's device id; at most 63 characters, opaque to the kubelet.
        is_healthy: unhealthy slots count towards capacity, and are given to nobody.
        numa_nodes: the NUMA nodes near the slot; empty says nothing of topology.
    """

    slot_id: str
    is_healthy: bool = True
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A path of the host seen in the container."""

    container_path: str
    host_path: str
    is_read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device node of the host seen in the container; permissions are any of `r`, `w`, `m`."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerGrant:
    """What Allocate gives to one container.

    Attributes:
        envs: the pod's own env overrides these, so no limit may live here.
        cdi_devices: fully qualified CDI names; a kubelet before 1.28 ignores them.
    """

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredRequest:
    """The kubelet asks which slots it should take for one container.

    Attributes:
        available: all it may choose from, in no order; holds `must_include` too.
        must_include: what it takes in any case (slots of the pod's init containers).
        size: how many it takes in all, `must_include` among them.
    """

    available: tuple[str, ...]
    must_include: tuple[str, ...] = ()
    size: int


class DevicePluginHandler(Protocol):
    """The device plugin role, as the kubelet's server calls it.

    A `HamidError` becomes the message and hint that a person reads in the pod's status.
    """

    @property
    def devices(self) -> Latest[tuple[AdvertisedDevice, ...]]:
        """What to advertise; each published change goes to the kubelet."""
        ...

    async def preferred_allocation(self, request: PreferredRequest) -> tuple[str, ...]:
        """Return the slots to take; empty is no preference.

        The kubelet drops ids it did not offer, and fills what is missing at random. It does not
        ask at all when the slots of the pod's init containers suffice.
        """
        ...

    async def allocate(self, slot_ids: tuple[str, ...]) -> ContainerGrant:
        """Return the grant of the container that gets these slots (a set, in no order).

        The call does not say which container that is. A container with the same count as an init
        container of its pod is given the same slots again.
        """
        ...

    async def pre_start(self, slot_ids: tuple[str, ...]) -> None:
        """Make the grant final: called at each start of a container, when the owner is on record.

        Calls of several pods overlap.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDevices:
    """The slots of our resource that a container holds, sorted; empty while it is being admitted."""

    container_name: str
    slot_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """A pod in the kubelet's pod resources: no UID, and no plain init containers."""

    namespace: str
    name: str
    containers: tuple[ContainerDevices, ...]


class PodResourcesPort(Protocol):
    """The pod resources API: which container holds which slots.

    Complete but for plain init containers, which it omits, and pod UIDs, which it does not know.
    A pod shows from the moment the kubelet begins to admit it, with no slots until its Allocate
    has returned.
    """

    @property
    def can_get(self) -> bool:
        """Whether the kubelet answers for a single pod; true until this one was seen to refuse."""
        ...

    async def list(self) -> tuple[PodDevices, ...]:
        """Return all active pods. Makes the kubelet recompute its books: not inside Allocate."""
        ...

    async def get(self, namespace: str, name: str) -> PodDevices | None:
        """Return one pod, or None when the kubelet does not know it.

        On a kubelet without `Get` it is looked up in the list.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPod:
    """A pod as the kubelet itself has it."""

    namespace: str
    name: str
    uid: str


class PodsApiPort(Protocol):
    """The kubelet's Pods API (on by default since 1.37): the node's pods, with their UIDs."""

    @property
    def is_served(self) -> bool:
        """Whether this kubelet has the API; false where this one was seen to lack it."""
        ...

    async def list_pods(self) -> tuple[KubeletPod, ...]:
        """Return the pods of the node; raises `NotServed` where `is_served` is false."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """One container's slots in the kubelet's checkpoint: all kinds of containers, with pod UID.

    `envs` are those of our Allocate answer, which the kubelet keeps beside; empty when it cannot
    be read.
    """

    pod_uid: str
    container_name: str
    resource_name: str
    slot_ids: tuple[str, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


class CheckpointPort(Protocol):
    """The kubelet's checkpoint file: an internal format, to verify with, never to rely on."""

    async def read(self) -> tuple[CheckpointEntry, ...]:
        """Return all entries; empty when there is no file yet."""
        ...
