"""Cards as the measure of fragmentation sees them: few states, each worked out once.

Two cards of one kind with the same amounts promised are the same *state*, whatever node they are
in: thousands of cards have some dozens of states. A state knows how many of each ask it takes, and
which state it becomes when some ask comes onto it, or what stands against that. That holds under any typical asks; the figures
that do not (see `Card`) are worked out anew, state by state, once other asks are typical.

The figures of all typical asks stand side by side in one long integer, a *lane* of `LANE_BITS` bits
for each: a node's sum over its cards is then one sum of integers, and so is any what-if.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.quantities import resolve_memory_mib
from hamid.sched.placement import fit
from hamid.sched.placement.fit import share_on, shortfalls
from hamid.sched.placement.refusal import card_reasons

if TYPE_CHECKING:
    from hamid.model.device import Device, DeviceUsage, DeviceUuid
    from hamid.sched.placement.refusal import CardReasons
    from hamid.sched.placement.typical import CardAsk, Typical

LANE_BITS: Final = 32
CARD_SPACE: Final = 1_000
"""The space of an empty card."""
_KEPT: Final = 8_192
"""States; beyond, those that no node is in any more are most of them."""
_DEVICES_KEPT: Final = 65_536


class Step(NamedTuple):
    """What changes in a node's sums when an ask comes onto one of its cards."""

    lanes: int
    space: int
    plain: int


class Card:
    """One state.

    Attributes:
        usage: some card in this state.
        is_cordoned: nothing comes onto it, and neither if it is unhealthy.
        space: what is free of it, in milli-cards.
        lanes: three for each typical ask: first those of how many of it the card takes (0 or 1
            where one container asks for several cards), then those of the card's space where it
            takes none of the ask, then those of the space that so many of it take.
        plain: what the card adds to its node's value, by the asks for single cards, on a host
            that has enough of everything; see `fragmentation`.
    """

    __slots__ = (
        "copies_by_ask",
        "generation",
        "is_cordoned",
        "kind",
        "lanes",
        "plain",
        "reasons",
        "space",
        "steps",
        "successors",
        "usage",
    )

    def __init__(self, usage: DeviceUsage, kind: CardKind, *, is_cordoned: bool) -> None:
        self.usage = usage
        self.kind = kind
        self.is_cordoned = is_cordoned
        self.space = self.lanes = self.plain = 0
        self.generation: object = None
        self.copies_by_ask: dict[CardAsk, int] = {}
        self.successors: dict[int, Card | None] = {}
        self.reasons: dict[int, CardReasons] = {}
        self.steps: dict[int, Step | None] = {}

    @property
    def is_closed(self) -> bool:
        """Whether nothing comes onto it, whatever is free."""
        return self.is_cordoned or not self.usage.device.is_healthy

    def copies(self, ask: CardAsk) -> int:
        """How many of the ask the card takes at once."""
        copies = self.copies_by_ask.get(ask)
        if copies is None:
            copies = self.copies_by_ask[ask] = fit.copies(self.usage, ask, request=ask)
        return copies


class CardKind:
    """Cards of one model and size.

    Attributes:
        sizes: the space that each typical ask takes of one such card.
    """

    __slots__ = ("core_weight", "device", "memory_weight", "sizes")

    def __init__(self, device: Device, asks: tuple[tuple[CardAsk, int], ...]) -> None:
        self.device = device
        self.adopt(asks)

    def adopt(self, asks: tuple[tuple[CardAsk, int], ...]) -> None:
        """Take these for the typical asks."""
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
    """All states met so far, under one set of typical asks at a time.

    Attributes:
        asks: the distinct asks of the typical shapes, with their weights; the lanes' order.
        answer_count: how much is remembered of states, ask by ask.
    """

    def __init__(self, typical: Typical) -> None:
        self._numbers: dict[CardAsk, int] = {}
        self._numbered: list[CardAsk] = []
        self._kinds: dict[object, CardKind] = {}
        self._states: dict[object, Card] = {}
        self._kind_by_uuid: dict[DeviceUuid, tuple[Device, CardKind]] = {}
        self.answer_count = 0
        self.adopt(typical)

    def adopt(self, typical: Typical) -> None:
        """Take these shapes for the typical ones; every card's figures become void."""
        weights: dict[CardAsk, int] = {}
        for shape, weight in typical.shapes:
            weights[shape.cards] = weights.get(shape.cards, 0) + weight
        self.asks = tuple(weights.items())
        self._generation = object()
        for kind in self._kinds.values():
            kind.adopt(self.asks)

    def of(self, usage: DeviceUsage, *, is_cordoned: bool) -> Card:
        """The state of this card."""
        device = usage.device
        known = self._kind_by_uuid.get(device.device_uuid)
        if known is None or known[0] is not device:
            if len(self._kind_by_uuid) >= _DEVICES_KEPT:
                self._kind_by_uuid.clear()
            known = self._kind_by_uuid[device.device_uuid] = (device, self._kind(device))
        return self._state(usage, known[1], is_cordoned=is_cordoned)

    def refresh(self, card: Card) -> None:
        """Work out the card's figures, unless they are those of the typical asks already."""
        if card.generation is not self._generation:
            card.generation = self._generation
            card.steps.clear()
            if not card.is_closed:
                self._fill(card)

    def number(self, ask: CardAsk) -> int:
        """A number for the ask, for `after` and `step`."""
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
            found = None
            if not self.reasons(card, number).shortfalls:
                share = share_on(card.usage.device, self._numbered[number])
                found = self._state(card.usage.with_share(share), card.kind, is_cordoned=False)
            card.successors[number] = found
            self.answer_count += 1
            return found

    def reasons(self, card: Card, number: int) -> CardReasons:
        """What stands against the ask on the card."""
        found = card.reasons.get(number)
        if found is None:
            ask = self._numbered[number]
            share = share_on(card.usage.device, ask)
            lacking = shortfalls(card.usage, share, request=ask, is_cordoned=card.is_cordoned)
            found = card.reasons[number] = card_reasons(lacking)
            self.answer_count += 1
        return found

    def step(self, card: Card, number: int) -> Step | None:
        """What changes with the ask on the card; None where it does not fit."""
        try:
            return card.steps[number]
        except KeyError:
            found = None
            if (after := self.after(card, number)) is not None:
                self.refresh(after)
                found = Step(
                    after.lanes - card.lanes, after.space - card.space, after.plain - card.plain
                )
            card.steps[number] = found
            self.answer_count += 1
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

    def _state(self, usage: DeviceUsage, kind: CardKind, *, is_cordoned: bool) -> Card:
        key = (
            kind,
            usage.memory_used_mib,
            usage.core_used_percent,
            usage.slots_used,
            usage.exclusive_count,
            usage.device.is_healthy,
            is_cordoned,
        )
        card = self._states.get(key)
        if card is None:
            if len(self._states) >= _KEPT:
                self._states.clear()
            card = self._states[key] = Card(usage, kind, is_cordoned=is_cordoned)
        return card

    def _fill(self, card: Card) -> None:
        kind, space = card.kind, card.kind.space_of(card.usage)
        copies_lanes = unfit_lanes = taken_lanes = plain = 0
        for lane, (ask, weight) in enumerate(self.asks):
            shift = lane * LANE_BITS
            copies, size = card.copies(ask), kind.sizes[lane]
            if ask.device_count > 1:
                copies = min(copies, 1)
            else:
                plain += weight * (space - size * copies + (0 if copies else space))
            if copies:
                copies_lanes |= copies << shift
                taken_lanes |= size * copies << shift
            else:
                unfit_lanes |= space << shift
        width = len(self.asks) * LANE_BITS
        card.space, card.plain = space, plain
        card.lanes = copies_lanes | unfit_lanes << width | taken_lanes << 2 * width
