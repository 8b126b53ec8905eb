"""What is replayed: nodes, tasks, and the order in which tasks come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.node import NO_HOST
from hamid.model.quantities import WHOLE_CARD, MemoryMib, MemoryPercent
from hamid.model.request import (
    ANY_DEVICE,
    ContainerKind,
    ContainerRequest,
    DeviceSelection,
    PodRequest,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from hamid.model.device import Device, DeviceUuid
    from hamid.model.node import HostAmount
    from hamid.model.quantities import MemoryRequest

CONTAINER: Final = "main"
MILLI: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimNode:
    """A node before anything runs on it; without a host amount it takes any.

    Attributes:
        cordoned: devices that take nothing.
        links: device → other device → how well they are linked; empty where it is not known.
    """

    name: str
    devices: tuple[Device, ...]
    host: HostAmount | None = None
    cordoned: frozenset[DeviceUuid] = frozenset()
    links: Mapping[DeviceUuid, Mapping[DeviceUuid, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pod of one container.

    Attributes:
        device_count: 0 for one that asks for no card.
        memory, core_percent: of each card.
        arrives_at_s, lasts_s: as recorded; None lasts for ever.
        card_memory_mib: see `Arrival.on_cards_of`.
    """

    name: str
    device_count: int
    memory: MemoryRequest = WHOLE_CARD
    core_percent: int = WHOLE_DEVICE_PERCENT
    models: tuple[str, ...] = ()
    host: HostAmount = NO_HOST
    arrives_at_s: float = 0.0
    lasts_s: float | None = None
    card_memory_mib: int = 0

    @property
    def core_milli(self) -> int:
        """The cores that it asks for, in thousandths of a card, over all its cards.

        Where it asks for none, the share of memory stands in.
        """
        return load_milli(self.device_count, self.memory, self.core_percent, self.card_memory_mib)

    def on_cards_of(self, memory_mib: int) -> Self:
        """The same, where cards have so much memory; see `Arrival`."""
        return replace(self, card_memory_mib=memory_mib)

    def endless(self) -> Self:
        """The same, from the start and for ever."""
        return replace(self, arrives_at_s=0.0, lasts_s=None)

    def request(self, pod_uid: str) -> PodRequest:
        """The task as a pod of that UID."""
        container = ContainerRequest(
            container_name=CONTAINER,
            kind=ContainerKind.APP,
            device_count=self.device_count,
            memory=self.memory,
            core_percent=self.core_percent,
        )
        return PodRequest(
            pod_uid=pod_uid,
            namespace="sim",
            pod_name=self.name,
            container_names=(CONTAINER,),
            requests=(container,) if self.device_count else (),
            selection=DeviceSelection(use_models=self.models) if self.models else ANY_DEVICE,
            host=self.host,
        )


class Arrival(Protocol):
    """What a replay needs to know of a pod: a `Task`, or a pod of a snapshot."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def host(self) -> HostAmount:
        """What it asks of the host."""
        ...

    @property
    def arrives_at_s(self) -> float:
        """As recorded."""
        ...

    @property
    def lasts_s(self) -> float | None:
        """As recorded; None lasts for ever."""
        ...

    @property
    def core_milli(self) -> int:
        """By how much it adds to the load that has arrived."""
        ...

    def request(self, pod_uid: str) -> PodRequest:
        """What it asks for, as a pod of that UID."""
        ...

    def endless(self) -> Self:
        """The same, from the start and for ever."""
        ...

    def on_cards_of(self, memory_mib: int) -> Self:
        """The same, where cards have so much memory on average: what MiB are as a share of one."""
        ...


A = TypeVar("A", bound=Arrival)


def load_milli(
    device_count: int, memory: MemoryRequest, core_percent: int, card_memory_mib: int = 0
) -> int:
    """The part of its cards that a container asks for, in thousandths of one card.

    Memory in MiB alone adds nothing where the memory of a card is not given.
    """
    percent = core_percent
    if not percent and isinstance(memory, MemoryMib) and card_memory_mib:
        return device_count * min(MILLI * memory.mib // card_memory_mib, MILLI)
    if not percent and isinstance(memory, MemoryPercent):
        percent = memory.percent
    return device_count * percent * MILLI // WHOLE_DEVICE_PERCENT


def recorded(tasks: Sequence[A]) -> Iterator[A]:
    """The tasks in the order in which they came, each as long as it lasted."""
    return iter(sorted(tasks, key=lambda task: (task.arrives_at_s, task.name)))


def resampled(
    tasks: Sequence[A], *, capacity_milli: int, load_percent: float, rng: random.Random
) -> Iterator[A]:
    """The protocol of the openb papers: arrivals until they ask for that much of the cards.

    Every task once, in random order, then tasks drawn with replacement; none of them ever ends.
    """
    wanted = capacity_milli * load_percent / 100
    asked = 0
    order = list(tasks)
    rng.shuffle(order)
    if not any(task.core_milli for task in order):
        return
    while asked < wanted:
        task = order.pop() if order else rng.choice(tasks)
        asked += task.core_milli
        yield task.endless()


def in_two_dimensions(tasks: Sequence[Task], *, rng: random.Random) -> tuple[Task, ...]:
    """The tasks with memory asked apart from cores, where they ask for part of a card.

    Memory is the cores' share times one of `MEMORY_FACTORS`, each as likely as any other, drawn for
    each task, and at most the whole card.
    """
    return tuple(
        replace(task, memory=MemoryPercent(percent=_memory_percent(task.core_percent, rng)))
        if task.device_count and task.core_percent < WHOLE_DEVICE_PERCENT
        else task
        for task in tasks
    )


MEMORY_FACTORS: Final = (0.5, 0.75, 1.0, 1.25, 1.5)


def _memory_percent(core_percent: int, rng: random.Random) -> int:
    return min(max(round(core_percent * rng.choice(MEMORY_FACTORS)), 1), 100)
