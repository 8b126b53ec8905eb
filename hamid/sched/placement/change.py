"""A change to a pod or a node, in numbers, and what they are after it; found by `smallest_change`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hamid.model import names as wire
from hamid.model.quantities import MemoryMib, MemoryPercent
from hamid.model.shortfall import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hamid.model.device import DeviceUuid
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest


MAX_NAMES_SHOWN: Final = 3
"""Containers, and amounts of others, named in a sentence; the event has no room for all."""


class ChangeKind(StrEnum):
    """What is changed; see `smallest_change` and `departure`."""

    MEMORY = "memory"
    CORES = "cores"
    CARDS = "cards"
    PART = "part"
    ANNOTATIONS = "annotations"
    UNCORDON = "uncordon"
    DEPARTURE = "departure"


class Amount(StrEnum):
    """What a container can ask less of; the value is its unit."""

    MEMORY_MIB = "MiB"
    MEMORY_PERCENT = "% of the memory"
    CORES = "% of the cores"
    CARDS = "cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """One amount of one container: what it asks, and the most of it that would fit."""

    container_name: str
    amount: Amount
    asked: int
    fitting: int

    @property
    def less(self) -> int:
        """By how much."""
        return self.asked - self.fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with which the pod fits.

    Attributes:
        node_name: one that would take it then.
        lowered: what the pod would ask less of, all of it at once.
        annotations: of the pod, to be dropped.
        device_uuids: of the node, to be uncordoned.
        pod_key, pod_priority: of the pod on the node that would have to go.
    """

    kind: ChangeKind
    node_name: str
    lowered: tuple[Lowered, ...] = ()
    annotations: tuple[str, ...] = ()
    device_uuids: tuple[DeviceUuid, ...] = ()
    pod_key: str = ""
    pod_priority: int = 0

    @property
    def sentence(self) -> str:
        """For people: `ask for 1200 MiB less (1800 instead of 3000) in container main`."""
        if self.annotations:
            # A request does not say by which of its two names the mode was asked for.
            mode, older_mode = wire.VGPU_MODES
            said = " and ".join(self.annotations)
            several = "s" if len(self.annotations) > 1 else ""
            return f"drop annotation{several} {said}".replace(mode, f"{mode} (or {older_mode})")
        if self.device_uuids:
            return f"uncordon {', '.join(self.device_uuids)} of node {self.node_name}"
        if self.pod_key:
            return f"delete pod {self.pod_key} (priority {self.pod_priority})"
        return f"ask for {' and '.join(self._lowered())}"

    def _lowered(self) -> Iterator[str]:
        """What is asked less of where; what is the same in several containers is said once."""
        by_container: dict[str, list[str]] = {}
        for low in self.lowered:
            by_container.setdefault(low.container_name, []).append(_less(low))
        by_said: dict[str, list[str]] = {}
        for name, each in by_container.items():
            by_said.setdefault(" and ".join(each), []).append(name)
        whole = list(by_said.items())
        for said, names in whole[:MAX_NAMES_SHOWN]:
            yield f"{said} in {_containers(names)}"
        if more := sum(len(names) for _, names in whole[MAX_NAMES_SHOWN:]):
            yield f"less in {more} more container{'' if more == 1 else 's'}"


def _containers(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"container {names[0]}"
    more = len(names) - MAX_NAMES_SHOWN
    if more > 0:
        return f"each of containers {', '.join(names[:MAX_NAMES_SHOWN])} and {more} more"
    return f"each of containers {', '.join(names[:-1])} and {names[-1]}"


def _less(low: Lowered) -> str:
    match low.amount:
        case Amount.MEMORY_PERCENT | Amount.CORES:  # "86 % of the memory less" means another thing
            return f"{low.fitting} instead of {low.asked} {low.amount}"
        case Amount.CARDS:
            less = f"{low.less} card{'' if low.less == 1 else 's'} fewer"
        case Amount.MEMORY_MIB:
            less = f"{low.less} {low.amount} less"
    return f"{less} ({low.fitting} instead of {low.asked})"


def applied(
    change: Change, request: PodRequest, nodes: Iterable[NodeSnapshot]
) -> tuple[PodRequest, tuple[NodeSnapshot, ...]]:
    """The request and the nodes after the change."""
    for low in change.lowered:
        request = with_amount(request, low.container_name, low.amount, low.fitting)
    request = without(request, change.annotations)
    changed = (
        replace(node, cordoned=node.cordoned.difference(change.device_uuids))
        if node.node_name == change.node_name
        else node
        for node in nodes
    )
    return request, tuple(changed)


def amount_of(kind: ChangeKind, container: ContainerRequest) -> Amount:
    """What is lowered by a change of this kind."""
    if kind is ChangeKind.CARDS:
        return Amount.CARDS
    if kind is ChangeKind.CORES:
        return Amount.CORES
    is_percent = isinstance(container.memory, MemoryPercent)
    return Amount.MEMORY_PERCENT if is_percent else Amount.MEMORY_MIB


def asked_of(container: ContainerRequest, amount: Amount) -> int:
    """How much of it the container asks for."""
    match amount:
        case Amount.CARDS:
            return container.device_count
        case Amount.CORES:
            return container.core_percent
        case _:
            memory = container.memory
            return memory.percent if isinstance(memory, MemoryPercent) else memory.mib


def with_amount(request: PodRequest, name: str, amount: Amount, value: int) -> PodRequest:
    """The request with another amount in the container of that name."""
    requests = (
        asking_for(each, amount, value) if each.container_name == name else each
        for each in request.requests
    )
    return replace(request, requests=tuple(requests))


def asking_for(container: ContainerRequest, amount: Amount, value: int) -> ContainerRequest:
    """The container with another amount."""
    match amount:
        case Amount.CARDS:
            return replace(container, device_count=value)
        case Amount.CORES:
            return replace(container, core_percent=value)
        case Amount.MEMORY_PERCENT:
            return replace(container, memory=MemoryPercent(percent=value))
        case Amount.MEMORY_MIB:
            return replace(container, memory=MemoryMib(mib=value))


DROPPABLE: Final[Mapping[str, Sequence[Resource]]] = {
    wire.USE_MODEL: (Resource.MODEL,),
    wire.AVOID_MODEL: (Resource.MODEL,),
    wire.USE_UUID: (Resource.UUID,),
    wire.AVOID_UUID: (Resource.UUID,),
    wire.USE_INDEX: (Resource.INDEX,),
    wire.VGPU_MODE: (Resource.MODE,),
    wire.NUMA_BIND: (Resource.NUMA,),
    wire.NODE_POLICY: (Resource.NODE_IN_USE,),
    wire.DEVICE_POLICY: (Resource.EXCLUSIVITY,),
}
"""Annotations that narrow the choice, and what cards lack because of them."""


def without(request: PodRequest, names: Iterable[str]) -> PodRequest:
    """The request without these annotations."""
    for name in names:
        selection = request.selection
        match name:
            case wire.USE_MODEL:
                request = replace(request, selection=replace(selection, use_models=()))
            case wire.AVOID_MODEL:
                request = replace(request, selection=replace(selection, avoid_models=()))
            case wire.USE_UUID:
                request = replace(request, selection=replace(selection, use_uuids=()))
            case wire.AVOID_UUID:
                request = replace(request, selection=replace(selection, avoid_uuids=()))
            case wire.USE_INDEX:
                request = replace(request, selection=replace(selection, use_indices=()))
            case wire.VGPU_MODE:
                request = replace(request, allowed_modes=())
            case wire.NUMA_BIND:
                request = replace(request, is_numa_bound=False)
            case wire.NODE_POLICY:
                request = replace(request, node_policies=())
            case _:
                request = replace(request, device_policies=())
    return request
