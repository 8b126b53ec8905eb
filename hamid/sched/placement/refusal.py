"""What one node lacks for a pod, and how its cards are counted.

A card is counted under what must change first: what it is (health, cordon, model, uuid, mode),
then its size, then that it would have to be free of others; only then under each amount it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.shortfall import Resource
from hamid.sched.placement.fit import OF_THE_DEVICE, UNCHANGEABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.model.shortfall import Shortfall


class Kind(StrEnum):
    """What is said of a card; in the order in which it is said."""

    MEMORY = "memory"
    SIZE = "size"
    CORES = "cores"
    CORES_PROMISED = "cores-promised"
    SLOTS = "slots"
    IN_USE = "in-use"
    HELD_WHOLE = "held-whole"
    NUMA = "numa"
    MODEL = "model"
    UUID = "uuid"
    INDEX = "index"
    MODE = "mode"
    HEALTH = "health"
    CORDON = "cordon"


@dataclass(frozen=True, slots=True)
class CardCount:
    """How many cards are of one kind, and the one that comes nearest to what is asked."""

    card_count: int
    nearest: Shortfall


class Refusal:
    """Why a node does not take a pod.

    Counts are made when first asked for, and once: the same refusal is told again and again, for
    as long as nothing changes on the node.

    Attributes:
        shortfalls: of the first container for which there are too few devices: one of
            `DEVICE_COUNT` (requested devices, those that do not fit, those there are), then those
            of each device. A node without devices lacks its `REGISTRATION` alone.
        card_count: the devices of the node.
        needed_count: those that the container asks for.
        fitting_count: those that would do.
    """

    __slots__ = (
        "_counts",
        "_is_hopeless",
        "card_count",
        "fitting_count",
        "needed_count",
        "shortfalls",
    )

    def __init__(self, shortfalls: tuple[Shortfall, ...]) -> None:
        self.shortfalls = shortfalls
        self.card_count = self.needed_count = self.fitting_count = 0
        for shortfall in shortfalls:
            if shortfall.resource is Resource.DEVICE_COUNT:
                self.card_count = shortfall.capacity
                self.needed_count = shortfall.requested
                self.fitting_count = shortfall.capacity - shortfall.used
        self._counts: Mapping[Kind, CardCount] | None = None
        self._is_hopeless: bool | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and self.shortfalls == other.shortfalls

    def __hash__(self) -> int:
        return hash(self.shortfalls)

    def __repr__(self) -> str:
        return f"Refusal({self.shortfalls!r})"

    @property
    def is_registered(self) -> bool:
        """Whether the node has devices at all."""
        return self.card_count > 0

    @property
    def is_hopeless(self) -> bool:
        """Whether the node would refuse the pod even if it were empty: waiting is useless."""
        if self._is_hopeless is None:
            barred = {s.device_uuid for s in self.shortfalls if s.device_uuid and _is_lasting(s)}
            usable_count = self.card_count - len(barred)
            self._is_hopeless = not self.is_registered or usable_count < self.needed_count
        return self._is_hopeless

    @property
    def counts(self) -> Mapping[Kind, CardCount]:
        """How many cards there are of each kind."""
        if self._counts is None:
            self._counts = _counted(self.shortfalls)
        return self._counts


def gap(shortfall: Shortfall) -> int:
    """By how much it falls short; of a card that is too small, by how much even when empty."""
    if shortfall.requested > shortfall.capacity:
        return shortfall.requested - shortfall.capacity
    return shortfall.requested - (shortfall.capacity - shortfall.used)


def _is_lasting(shortfall: Shortfall) -> bool:
    if shortfall.resource in UNCHANGEABLE:
        return True
    return (
        shortfall.resource in {Resource.MEMORY_MIB, Resource.CORE_PERCENT, Resource.SLOTS}
        and shortfall.requested > shortfall.capacity
    )


def _counted(shortfalls: Sequence[Shortfall]) -> Mapping[Kind, CardCount]:
    by_device: dict[str, list[Shortfall]] = {}
    for shortfall in shortfalls:
        if shortfall.device_uuid is not None:
            by_device.setdefault(shortfall.device_uuid, []).append(shortfall)
    by_kind: dict[Kind, list[Shortfall]] = {}
    for found in by_device.values():
        for shortfall in _first_to_change(found):
            by_kind.setdefault(_kind(shortfall), []).append(shortfall)
    return {
        kind: CardCount(len(found), min(found, key=gap)) for kind, found in sorted(by_kind.items())
    }


def _first_to_change(found: Sequence[Shortfall]) -> Sequence[Shortfall]:
    for comes_first in (
        lambda s: s.resource in OF_THE_DEVICE,
        lambda s: s.resource is Resource.MEMORY_MIB and s.requested > s.capacity,
        lambda s: s.resource is Resource.EXCLUSIVITY,
    ):
        if first := [s for s in found if comes_first(s)]:
            return first[:1]
    return found


_KIND_BY_RESOURCE: Final = {
    Resource.SLOTS: Kind.SLOTS,
    Resource.MODEL: Kind.MODEL,
    Resource.UUID: Kind.UUID,
    Resource.INDEX: Kind.INDEX,
    Resource.NUMA: Kind.NUMA,
    Resource.MODE: Kind.MODE,
    Resource.HEALTH: Kind.HEALTH,
    Resource.CORDON: Kind.CORDON,
}


def _kind(shortfall: Shortfall) -> Kind:
    match shortfall.resource:
        case Resource.MEMORY_MIB:
            return Kind.SIZE if shortfall.requested > shortfall.capacity else Kind.MEMORY
        case Resource.CORE_PERCENT:
            return Kind.CORES if shortfall.requested else Kind.CORES_PROMISED
        case Resource.EXCLUSIVITY:
            is_whole = shortfall.requested >= WHOLE_DEVICE_PERCENT
            return Kind.IN_USE if is_whole else Kind.HELD_WHOLE
        case resource:
            return _KIND_BY_RESOURCE[resource]
