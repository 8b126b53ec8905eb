"""What one node lacks for a pod, and how its cards are counted.

A card is counted under what must change first: what it is (health, cordon, model, uuid, index,
mode), then its size, then that it would have to be free of others; only then under each amount it
lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.shortfall import Resource, Shortfall
from hamid.sched.placement.fit import OF_THE_DEVICE, UNCHANGEABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence


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
    NODE_IN_USE = "node-in-use"
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


class CardReasons(NamedTuple):
    """What stands against a container on one card.

    Attributes:
        said: the reasons under which the card is counted; see the module.
        is_lasting: whether the card would not do even if it were empty.
    """

    shortfalls: tuple[Shortfall, ...]
    said: tuple[tuple[Kind, Shortfall], ...]
    is_lasting: bool


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
        "_shortfalls",
        "_sums",
        "card_count",
        "fitting_count",
        "needed_count",
    )

    def __init__(self, shortfalls: tuple[Shortfall, ...]) -> None:
        self._shortfalls = shortfalls
        self.card_count = self.needed_count = self.fitting_count = 0
        for shortfall in shortfalls:
            if shortfall.resource is Resource.DEVICE_COUNT:
                self.card_count = shortfall.capacity
                self.needed_count = shortfall.requested
                self.fitting_count = shortfall.capacity - shortfall.used
        self._sums: tuple[Mapping[Kind, CardCount], bool] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and self.shortfalls == other.shortfalls

    def __hash__(self) -> int:
        return hash(self.shortfalls)

    def __repr__(self) -> str:
        return f"Refusal({self.shortfalls!r})"

    @property
    def shortfalls(self) -> tuple[Shortfall, ...]:
        """All that stands against the pod."""
        return self._shortfalls

    @property
    def alike(self) -> Refusal:
        """One that stands for all that say the same of cards in the same states."""
        return self

    @property
    def is_registered(self) -> bool:
        """Whether the node has devices at all."""
        return self.card_count > 0

    @property
    def is_hopeless(self) -> bool:
        """Whether the node would refuse the pod even if it were empty: waiting is useless."""
        return self._summed()[1]

    @property
    def counts(self) -> Mapping[Kind, CardCount]:
        """How many cards there are of each kind."""
        return self._summed()[0]

    def _summed(self) -> tuple[Mapping[Kind, CardCount], bool]:
        if self._sums is None:
            self._sums = self._sum(_by_card(self.shortfalls))
        return self._sums

    def _sum(self, cards: Iterable[CardReasons]) -> tuple[Mapping[Kind, CardCount], bool]:
        by_kind: dict[Kind, list[Shortfall]] = {}
        usable_count = self.card_count
        for card in cards:
            usable_count -= card.is_lasting
            for kind, shortfall in card.said:
                by_kind.setdefault(kind, []).append(shortfall)
        counts = {
            kind: CardCount(len(found), min(found, key=nearness))
            for kind, found in sorted(by_kind.items())
        }
        return counts, not self.is_registered or usable_count < self.needed_count


class StatesRefusal(Refusal):
    """What all nodes with cards in the same states say; it names no device.

    Args:
        cards: one for each.
        needed_count: what the container asks for.
    """

    __slots__ = ()

    def __init__(self, cards: Sequence[CardReasons], needed_count: int) -> None:
        super().__init__(() if cards else (Shortfall(resource=Resource.REGISTRATION),))
        self.card_count = len(cards)
        self.needed_count = needed_count if cards else 0
        self.fitting_count = sum(not card.shortfalls for card in cards)
        self._sums = self._sum(cards)


class AlikeRefusal(Refusal):
    """What one of these nodes says.

    Args:
        alike: what they all say.
        find: returns the same of this node, with its own devices.
    """

    __slots__ = ("_alike", "_find")

    def __init__(self, alike: Refusal, find: Callable[[], Refusal]) -> None:
        self._alike = alike
        self._find = find
        self.card_count = alike.card_count
        self.needed_count = alike.needed_count
        self.fitting_count = alike.fitting_count

    @property
    def shortfalls(self) -> tuple[Shortfall, ...]:
        """All that stands against the pod; worked out at each call."""
        return self._find().shortfalls

    @property
    def alike(self) -> Refusal:
        """What they all say."""
        return self._alike

    @property
    def is_hopeless(self) -> bool:
        """As they all say."""
        return self._alike.is_hopeless

    @property
    def counts(self) -> Mapping[Kind, CardCount]:
        """As they all say."""
        return self._alike.counts


class AlikeRefusals(Mapping[str, Refusal]):
    """What each node says, where many say the same; most of that is only counted.

    Args:
        said: by node, one that stands for all that say so.
        find: returns what the node of that name says, with its own devices.
    """

    __slots__ = ("_find", "said")

    def __init__(self, said: Mapping[str, Refusal], find: Callable[[str], Refusal]) -> None:
        self.said = said
        self._find = find

    def __getitem__(self, node_name: str) -> Refusal:
        return AlikeRefusal(self.said[node_name], partial(self._find, node_name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.said)

    def __len__(self) -> int:
        return len(self.said)

    def __repr__(self) -> str:
        return f"AlikeRefusals({self.said!r})"


def grouped(refusals: Mapping[str, Refusal]) -> Collection[tuple[Refusal, list[str]]]:
    """What is said, and the names of all nodes that say so."""
    said = refusals.said if isinstance(refusals, AlikeRefusals) else refusals
    groups: dict[int, tuple[Refusal, list[str]]] = {}
    for name, refusal in said.items():
        alike = refusal.alike
        group = groups.get(id(alike))
        if group is None:
            groups[id(alike)] = alike, [name]
        else:
            group[1].append(name)
    return groups.values()


def nearness(shortfall: Shortfall) -> tuple[int, ...]:
    """The smaller the nearer; equal only where the same is said of both, whatever came first."""
    return gap(shortfall), shortfall.requested, shortfall.used, shortfall.capacity


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


def card_reasons(shortfalls: Sequence[Shortfall]) -> CardReasons:
    """Of one card, what is said of all that it lacks."""
    return CardReasons(
        tuple(shortfalls),
        tuple((kind_of(found), found) for found in _first_to_change(shortfalls)),
        any(map(_is_lasting, shortfalls)),
    )


def _by_card(shortfalls: Sequence[Shortfall]) -> Iterator[CardReasons]:
    by_device: dict[str, list[Shortfall]] = {}
    for shortfall in shortfalls:
        if shortfall.device_uuid is not None:
            by_device.setdefault(shortfall.device_uuid, []).append(shortfall)
    return map(card_reasons, by_device.values())


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
    Resource.NODE_IN_USE: Kind.NODE_IN_USE,
    Resource.MODE: Kind.MODE,
    Resource.HEALTH: Kind.HEALTH,
    Resource.CORDON: Kind.CORDON,
}


def kind_of(shortfall: Shortfall) -> Kind:
    """Under what a card is counted that lacks this."""
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
