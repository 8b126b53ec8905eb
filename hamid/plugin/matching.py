"""Which pod and container an Allocate call is for. Pure.

The kubelet admits pods one after another, and asks for the containers of a pod in the order of
its spec, init containers first, each with the number of slots in its limits. It does not say
whom it asks for. From this follows:

1. Only pods bound to this node, not finished, with a container not served yet come into
   question, and of each of them only the first such container, if its count is right.
2. Of several such pods, the one under admission is known to the kubelet with that container
   empty; those admitted before are known with their slots, those not yet reached are unknown.
3. What still remains is ordered: pods whose decided cards are those that the slots name first
   (the slots were steered), then the oldest (the kubelet's own order).

A wrong guess is found and mended at PreStartContainer, when the owner is on record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.model.sharing import Sharing
from hamid.plugin.slots import slot_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hamid.model.allocation import ContainerAllocation, PodAllocation
    from hamid.model.device import DeviceUuid
    from hamid.model.request import ContainerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingContainer:
    """A container that asks for our slots.

    Attributes:
        position: its place among all containers of the pod, init containers first.
        slot_count: at least 1.
        sharing: what the pod says of how it shares its devices' time.
    """

    name: str
    kind: ContainerKind
    position: int
    slot_count: int
    sharing: Sharing = Sharing()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOnNode:
    """A pod of this node, as far as the device plugin needs it.

    Attributes:
        created_at: the creation timestamp, as text that sorts.
        asking: the containers that ask for our slots, in the order of the spec, init first.
        allocation: what was decided for it, or None where nothing was.
        is_by_hami: that is HAMi's record, which does not say for which pod it is: it counts in the
            books, but nobody is given anything by it.
        problem: why its allocation cannot be read, if it cannot.
        is_initialized: its plain init containers are done, and hold nothing.
        is_terminal: it has finished, and holds nothing.
        running: names of the containers that run, as the kubelet last told the API server.
    """

    pod_uid: str
    namespace: str
    name: str
    created_at: str
    asking: tuple[AskingContainer, ...]
    allocation: PodAllocation | None
    is_by_hami: bool = False
    problem: str | None = None
    is_initialized: bool = False
    is_terminal: bool = False
    running: frozenset[str] = frozenset()

    @property
    def pod_key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"

    def sharing(self, container_name: str) -> Sharing:
        """What it says of how this container shares its devices' time."""
        return next((c.sharing for c in self.asking if c.name == container_name), Sharing())

    def decided(self, container_name: str) -> ContainerAllocation | None:
        """What was decided for the container, if anything was."""
        return self.allocation.container(container_name) if self.allocation else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A container that the call may be for; no allocation means that nothing was decided."""

    pod: PodOnNode
    container: AskingContainer

    @property
    def container_name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def key(self) -> ContainerKey:
        """Pod UID and container name."""
        return (self.pod.pod_uid, self.container.name)

    @property
    def allocation(self) -> ContainerAllocation | None:
        """What was decided for it."""
        return self.pod.decided(self.container.name)

    @property
    def devices(self) -> tuple[DeviceUuid, ...]:
        """The decided devices, in the order of choice."""
        shares = self.allocation.shares if self.allocation else ()
        return tuple(share.device_uuid for share in shares)


ContainerKey = tuple[str, str]
"""Pod UID and container name."""


def matches(
    pods: Sequence[PodOnNode], *, served: Collection[ContainerKey], count: int
) -> tuple[Match, ...]:
    """The containers that a call for `count` slots may be for, oldest pod first (rules 1, 3)."""
    found = (next_match(pod, served=served) for pod in _living(pods))
    return tuple(m for m in found if m is not None and m.container.slot_count == count)


def next_match(pod: PodOnNode, *, served: Collection[ContainerKey]) -> Match | None:
    """The pod's first container that asks for slots and is not served yet."""
    unserved = (c for c in pod.asking if (pod.pod_uid, c.name) not in served)
    return next((Match(pod=pod, container=container) for container in unserved), None)


def served_matches(pods: Sequence[PodOnNode], *, count: int) -> tuple[Match, ...]:
    """All containers with `count` slots, served or not: for a kubelet that lost its books."""
    return tuple(
        Match(pod=pod, container=container)
        for pod in _living(pods)
        for container in pod.asking
        if container.slot_count == count
    )


def _living(pods: Sequence[PodOnNode]) -> list[PodOnNode]:
    """Those that are not finished, the oldest first."""
    living = (pod for pod in pods if not pod.is_terminal)
    return sorted(living, key=lambda pod: (pod.created_at, pod.pod_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPod:
    """What the kubelet says of a pod: which of its containers have slots already."""

    namespace: str
    name: str
    containers_with_slots: frozenset[str]


def under_admission(
    found: Sequence[Match], known: Mapping[ContainerKey, KnownPod | None]
) -> tuple[Match, ...]:
    """Those of the matches whose pod the kubelet knows, with that container empty (rule 2).

    Args:
        found: the matches.
        known: per `(namespace, name)`, what the kubelet said; None for "unknown to it", absent
            for "could not be asked".
    """
    remaining = []
    for match in found:
        key = (match.pod.namespace, match.pod.name)
        if key not in known:
            remaining.append(match)
            continue
        pod = known[key]
        if pod is not None and match.container_name not in pod.containers_with_slots:
            remaining.append(match)
    return tuple(remaining)


def best_match(found: Sequence[Match], *, slot_ids: Sequence[str]) -> Match | None:
    """The likeliest of the matches (rule 3); None of none."""
    named = slot_devices(slot_ids)
    ranked = sorted(found, key=lambda match: frozenset(match.devices) != named)
    return ranked[0] if ranked else None
