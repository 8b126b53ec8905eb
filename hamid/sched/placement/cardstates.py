"""Cards as the measure of fragmentation sees them: few states, each worked out once.

Two cards of one kind with the same amounts promised are the same *state*, whatever node they are
in: thousands of cards have some dozens of states. A state knows how many of each typical ask it
takes, and which state it becomes when some ask comes onto it.

The figures of all asks stand side by side in one long integer, a *lane* of `LANE_BITS` bits for
each: a node's sum over its cards is then a sum of integers, and so is any what-if.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.quantities import resolve_memory_mib
from hamid.sched.placement.fit import share_on, shortfalls

if TYPE_CHECKING:
    from hamid.model.device import Device, DeviceUsage, DeviceUuid
    from hamid.sched.placement.typical import CardAsk, Typical

LANE_BITS: Final = 32
CARD_SPACE: Final = 1_000
"""The space of an empty card."""


class Card:
    """One state.

    Attributes:
        usage: some card in this state.
        is_closed: unhealthy or cordoned: nothing comes onto it.
        space: what is free of it, in milli-cards.
        copies: lanes of how many of each ask it takes; 0 or 1 where one container asks for
            several cards.
        unfit: lanes of its space, where it takes none of the ask, or 0.
        successors: what it becomes by an ask, by the ask's number; None where it does not fit.
    """

    __slots__ = ("copies", "is_closed", "kind", "space", "successors", "unfit", "usage")

    def __init__(self, usage: DeviceUsage, kind: CardKind, *, is_closed: bool) -> None:
        self.usage = usage
        self.kind = kind
        self.is_closed = is_closed
        self.space = 0 if is_closed else kind.space_of(usage)
        self.copies = self.unfit = 0
        self.successors: dict[int, Card | None] = {}


class CardKind:
    """Cards of one model and size.

    Attributes:
        sizes: the space that each typical ask takes of one such card.
    """

    __slots__ = ("core_weight", "device", "memory_weight", "sizes")

    def __init__(self, device: Device, asks: tuple[tuple[CardAsk, int], ...]) -> None:
        self.device = device
        self.memory_weight = self.core_weight = 0
        for ask, weight in asks:
            amount = weight * ask.device_count
            self.memory_weight += amount * self._memory_milli(ask)
            self.core_weight += amount * self._core_milli(ask)
        if self.memory_weight + self.core_weight <= 0:
            self.memory_weight = self.core_weight = 1
        self.sizes = tuple(self.size_of(ask) for ask, _ in asks)

    def size_of(self, ask: CardAsk) -> int:
        """The space that the ask takes of one card; all of it where it must be alone there."""
        if ask.core_percent >= WHOLE_DEVICE_PERCENT:
            return CARD_SPACE
        return self._weighted(self._memory_milli(ask), self._core_milli(ask))

    def space_of(self, usage: DeviceUsage) -> int:
        """What is free of the card."""
        if usage.exclusive_count:
            return 0
        device = self.device
        memory = max(usage.memory_free_mib, 0) * CARD_SPACE // max(device.memory_mib, 1)
        cores = max(usage.core_free_percent, 0) * CARD_SPACE // max(device.core_percent, 1)
        return self._weighted(memory, cores)

    def _weighted(self, memory: int, cores: int) -> int:
        total = self.memory_weight + self.core_weight
        return (self.memory_weight * memory + self.core_weight * cores) // total

    def _memory_milli(self, ask: CardAsk) -> int:
        mib = resolve_memory_mib(ask.memory, device_memory_mib=self.device.memory_mib)
        return min(mib * CARD_SPACE // max(self.device.memory_mib, 1), CARD_SPACE)

    def _core_milli(self, ask: CardAsk) -> int:
        return min(ask.core_percent * CARD_SPACE // max(self.device.core_percent, 1), CARD_SPACE)


class CardStates:
    """All states met so far, under one set of typical asks.

    Attributes:
        asks: the distinct asks of the typical shapes, with their weights; the lanes' order.
    """

    def __init__(self, typical: Typical) -> None:
        weights: dict[CardAsk, int] = {}
        for shape, weight in typical.shapes:
            weights[shape.cards] = weights.get(shape.cards, 0) + weight
        self.asks = tuple(weights.items())
        self._numbers: dict[CardAsk, int] = {}
        self._numbered: list[CardAsk] = []
        self._kinds: dict[object, CardKind] = {}
        self._states: dict[object, Card] = {}
        self._kind_by_uuid: dict[DeviceUuid, tuple[Device, CardKind]] = {}

    def of(self, usage: DeviceUsage, *, is_cordoned: bool) -> Card:
        """The state of this card."""
        device = usage.device
        known = self._kind_by_uuid.get(device.device_uuid)
        if known is None or known[0] is not device:
            known = self._kind_by_uuid[device.device_uuid] = (device, self._kind(device))
        return self._state(usage, known[1], is_closed=is_cordoned or not device.is_healthy)

    def number(self, ask: CardAsk) -> int:
        """A number for the ask, for `after`."""
        number = self._numbers.get(ask)
        if number is None:
            number = self._numbers[ask] = len(self._numbered)
            self._numbered.append(ask)
        return number

    def ask(self, number: int) -> CardAsk:
        """The ask of that number."""
        return self._numbered[number]

    def after(self, card: Card, number: int) -> Card | None:
        """What the card becomes with the ask on it; None where it does not fit."""
        try:
            return card.successors[number]
        except KeyError:
            ask = self._numbered[number]
            share = share_on(card.usage.device, ask)
            found = (
                None
                if card.is_closed or shortfalls(card.usage, share, request=ask)
                else self._state(card.usage.with_share(share), card.kind, is_closed=False)
            )
            card.successors[number] = found
            return found

    def _kind(self, device: Device) -> CardKind:
        key = (
            device.model,
            device.memory_mib,
            device.core_percent,
            device.slot_count,
            device.mode,
        )
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = CardKind(device, self.asks)
        return kind

    def _state(self, usage: DeviceUsage, kind: CardKind, *, is_closed: bool) -> Card:
        key = (
            kind,
            usage.memory_used_mib,
            usage.core_used_percent,
            usage.slots_used,
            usage.exclusive_count,
            is_closed,
        )
        card = self._states.get(key)
        if card is None:
            card = self._states[key] = Card(usage, kind, is_closed=is_closed)
            if not is_closed:
                self._fill_lanes(card)
        return card

    def _fill_lanes(self, card: Card) -> None:
        for lane, (ask, _) in enumerate(self.asks):
            copies = _copies(card.usage, ask)
            if ask.device_count > 1:
                copies = min(copies, 1)
            card.copies |= copies << (lane * LANE_BITS)
            if not copies:
                card.unfit |= card.space << (lane * LANE_BITS)


def _copies(usage: DeviceUsage, ask: CardAsk) -> int:
    """How many such shares the card takes at once."""
    share = share_on(usage.device, ask)
    if shortfalls(usage, share, request=ask):
        return 0
    if share.core_percent >= WHOLE_DEVICE_PERCENT:
        return 1
    copies = min(usage.slots_free, usage.memory_free_mib // max(share.memory_mib, 1))
    if share.core_percent:
        copies = min(copies, usage.core_free_percent // share.core_percent)
    return copies
