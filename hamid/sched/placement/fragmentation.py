"""The policy `fragmentation`: choose what costs the pods that usually come the least room.

The measure of a node says how much of its free card space is of no use to them. It is summed over
the typical shapes m (see `typical`), each weighted with its part p_m of the arrivals:

    value(n)   = Σ p_m × (½ unfit(n, m) + ½ stranded(n, m))
    unfit      = free space of the cards on which not one more m fits; of all cards of the node,
                 if m does not fit on the node at all (too few cards, too little CPU or memory)
    stranded   = free space of the node - copies(n, m) × space of m
    copies     = how many m the node takes at once:
                 min(copies on the cards, host CPU free // m's, host memory free // m's)
    score      = value before - value after - 0.005 × (cores left / 128 + cards left / 8)

Units: space is milli-cards, 1000 for an empty card; shapes' weights are parts per million, so that
values are milli-cards × 10⁶, in whole numbers; the last term, best fit, is in cards.

In two dimensions (memory and cores asked apart) a card's free space is the mean of what is free of
each, weighted with how much of each the typical shapes ask for; copies are the minimum over both.
What is left of one dimension without the other holds no copy, and so counts as stranded. A card
that is held whole has no free space, however little memory its holder asked for.

Departures from fragmentation gradient descent (FGD, Weng et al., USENIX ATC 2023), and what each
gains, in points of allocated cards on the openb traces (`benchmarks/`):

- half of the measure is the stranded count: FGD asks whether one more task fits, and so takes a
  node with CPU for one more task as wholly usable. Over FGD with ties by best fit: default +0.1,
  gpushare60 +0.4, multigpu30 +0.2, gpuspec20 +0.4, cpu100 +0.2;
- scores are not truncated to 0..100, and ties go by best fit, then name: drawn by lot, as
  kube-scheduler does, ties cost FGD 3.5 on default;
- CPU-only tasks are no typical shape: they shift all values alike, and so change nothing;
- typical shapes are learned from what arrived so far: 0 to -0.1 against knowing the whole trace.

These figures are of throw-away prototypes (5 seeds; 4 to 8 for the last), not of the benchmarks:
`bench-packing` has no FGD with ties by best fit. Two seeds differ by about 0.1, so that the gain on
`default` is within the noise. `typical.COVERED` was set on the same traces and seeds; its effect
(below 0.1) is within the noise, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.node import NO_HOST, HostAmount
from hamid.sched.placement.cardstates import LANE_BITS, CardStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.sched.placement.cardstates import Card
    from hamid.sched.placement.typical import CardAsk, Typical

SPACE_TIE: Final = 1_250
"""Per milli-card left: 5 milli-cards of measure for a node of eight empty cards."""
CPU_TIE: Final = 78
"""Per milli-core left: as much for a node of 128 idle cores."""

MANY: Final = 512
"""Copies on one node beyond which the host does not count: no node's cards take as many."""
NO_CARDS: Final = -1
"""In place of an ask's number, for a pod that asks for no card."""
_KEPT: Final = 50_000
_PPM: Final = 1_000_000
_UNKNOWN_HOST: Final = HostAmount(cpu_milli=1 << 50, memory_mib=1 << 50)
_FREE_HOST: Final = (_UNKNOWN_HOST.cpu_milli, _UNKNOWN_HOST.memory_mib)


class Choice(NamedTuple):
    """The best that a node has for one container.

    Attributes:
        score: the higher the better; twice the formula's, in milli-cards × 10⁶.
        positions: of the cards, in the node's order.
    """

    score: int
    positions: tuple[int, ...]


class View:
    """One node in the terms of the measure; nodes in the same state share one.

    Attributes:
        distinct: the first card of each state, with its position.
        bounds: by the number of an ask, a score that no choice for it exceeds, whatever it asks
            of the host; None where it does not fit.
        choices: by the number of an ask and what is asked of the host.
    """

    __slots__ = (
        "bounds",
        "cards",
        "choices",
        "copies",
        "cpu_milli",
        "distinct",
        "memory_mib",
        "sizes",
        "space",
        "tie",
        "unfit",
        "value",
    )

    def __init__(self, cards: tuple[Card, ...], cpu_milli: int, memory_mib: int) -> None:
        self.cards = cards
        self.cpu_milli = cpu_milli
        self.memory_mib = memory_mib
        self.copies = self.unfit = self.space = self.value = 0
        first: dict[Card, int] = {}
        for position, card in enumerate(cards):
            first.setdefault(card, position)
            self.copies += card.copies
            self.unfit += card.unfit
            self.space += card.space
        self.distinct = tuple((position, card) for card, position in first.items())
        self.sizes = cards[0].kind.sizes if cards else ()
        self.tie = 0 if cpu_milli >= _UNKNOWN_HOST.cpu_milli else CPU_TIE * cpu_milli
        self.bounds: dict[int, int | None] = {}
        self.choices: dict[tuple[int, HostAmount], Choice | None] = {}


class _Group:
    """The typical shapes with one and the same ask of cards."""

    __slots__ = ("count", "max_cpu", "max_memory", "members", "weight")

    def __init__(self, count: int) -> None:
        self.count = count
        self.weight = self.max_cpu = self.max_memory = 0
        self.members: list[tuple[int, int, int]] = []

    def add(self, host: HostAmount, weight: int) -> None:
        self.members.append((host.cpu_milli, host.memory_mib, weight))
        self.weight += weight
        self.max_cpu = max(self.max_cpu, host.cpu_milli)
        self.max_memory = max(self.max_memory, host.memory_mib)


class _Caps(NamedTuple):
    """How many of a group's shapes some host takes.

    Attributes:
        least: of the member of which it takes the fewest.
        served_weight: of the members of which it takes any.
        members: the number for each, with its weight; empty where `least` is `MANY` or more.
    """

    least: int
    served_weight: int
    members: tuple[tuple[int, int], ...]


class Fragmentation:
    """The measure under one set of typical shapes."""

    def __init__(self, typical: Typical) -> None:
        self.generation = typical.generation
        self._states = CardStates(typical)
        groups = {ask: _Group(ask.device_count) for ask, _ in self._states.asks}
        for shape, weight in typical.shapes:
            groups[shape.cards].add(shape.host, weight)
        self._groups = tuple(groups.values())
        self._lanes_bytes = len(groups) * (LANE_BITS // 8)
        self._caps_by_host: dict[tuple[int, int], list[_Caps]] = {}
        self._views: dict[tuple[tuple[Card, ...], int, int], View] = {}

    def number(self, ask: CardAsk) -> int:
        """A number for the ask, for the methods below."""
        return self._states.number(ask)

    def view(self, node: NodeSnapshot) -> View:
        """The node in the terms of the measure."""
        of, cordoned, host = self._states.of, node.cordoned, node.host_free or _UNKNOWN_HOST
        cards = tuple([of(u, is_cordoned=u.device.device_uuid in cordoned) for u in node.usages])
        key = (cards, host.cpu_milli, host.memory_mib)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _KEPT:
                self._views.clear()
            view = self._views[key] = View(*key)
            caps = self._caps(view.cpu_milli, view.memory_mib)
            view.value = self._doubled(view.sizes, view.copies, view.unfit, view.space, caps)
        return view

    def value(self, node: NodeSnapshot) -> float:
        """How much free card space is of no use, in milli-cards."""
        return self.view(node).value / (2 * _PPM)

    def bound(self, view: View, number: int) -> int | None:
        """A score that no choice for the ask exceeds, but for the CPU that it asks for."""
        try:
            return view.bounds[number]
        except KeyError:
            choice = self._choose(view, number, NO_HOST)
            found = view.bounds[number] = None if choice is None else choice.score
            return found

    def choose(self, view: View, number: int, host: HostAmount) -> Choice | None:
        """The best cards of the node for the ask, or None where there are too few that fit."""
        key = (number, host)
        try:
            return view.choices[key]
        except KeyError:
            found = view.choices[key] = self._choose(view, number, host)
            return found

    def card_cost(self, usage: DeviceUsage, number: int) -> int:
        """What the ask costs on this card, were it alone in its node: the smaller the better."""
        view = View((self._states.of(usage, is_cordoned=False),), *_FREE_HOST)
        caps = self._caps(*_FREE_HOST)
        view.value = self._doubled(view.sizes, view.copies, view.unfit, view.space, caps)
        after = self._states.after(view.cards[0], number)
        if after is None:
            return 0
        return -self._score(view, [(view.cards[0], after)], caps, 0)

    def cost(self, node: NodeSnapshot, after: NodeSnapshot, host: HostAmount) -> int:
        """What it costs that the node becomes another; the same figure as a choice's, negated."""
        one, other = self.view(node), self.view(replace(after, host_free=_less(node, host)))
        return other.value - one.value + SPACE_TIE * other.space + other.tie

    def _choose(self, view: View, number: int, host: HostAmount) -> Choice | None:
        caps = self._caps(view.cpu_milli - host.cpu_milli, view.memory_mib - host.memory_mib)
        if number == NO_CARDS:
            return Choice(self._score(view, (), caps, host.cpu_milli), ())
        count = self._states.ask(number).device_count
        if count > 1:
            return self._choose_several(view, number, caps, host.cpu_milli)
        best: Choice | None = None
        for position, card in view.distinct:
            after = self._states.after(card, number)
            if after is None:
                continue
            score = self._score(view, ((card, after),), caps, host.cpu_milli)
            if best is None or score > best.score:
                best = Choice(score, (position,))
        return best

    def _choose_several(
        self, view: View, number: int, caps: list[_Caps], cpu_milli: int
    ) -> Choice | None:
        """The fullest cards that fit: those that take several are as a rule empty, and alike."""
        count = self._states.ask(number).device_count
        fitting = [
            (card.space, position, card, after)
            for position, card in enumerate(view.cards)
            if (after := self._states.after(card, number)) is not None
        ]
        if len(fitting) < count:
            return None
        fitting.sort(key=lambda found: found[:2])
        chosen = fitting[:count]
        score = self._score(view, [(c, after) for _, _, c, after in chosen], caps, cpu_milli)
        return Choice(score, tuple(sorted(position for _, position, _, _ in chosen)))

    def _score(
        self, view: View, changes: Sequence[tuple[Card, Card]], caps: list[_Caps], cpu_milli: int
    ) -> int:
        copies, unfit, space = view.copies, view.unfit, view.space
        for card, after in changes:
            copies += after.copies - card.copies
            unfit += after.unfit - card.unfit
            space += after.space - card.space
        value = self._doubled(view.sizes, copies, unfit, space, caps)
        tie = view.tie - CPU_TIE * cpu_milli if view.tie else 0
        return view.value - value - SPACE_TIE * space - tie

    def _doubled(
        self, sizes: tuple[int, ...], copies: int, unfit: int, space: int, caps: list[_Caps]
    ) -> int:
        """Twice the value of a node with these sums over its cards."""
        if not space:
            return 0
        length = self._lanes_bytes
        total = 0
        for group, size, count, unfit_space, cap in zip(
            self._groups,
            sizes,
            memoryview(copies.to_bytes(length, "little")).cast("I"),
            memoryview(unfit.to_bytes(length, "little")).cast("I"),
            caps,
            strict=True,
        ):
            weight = group.weight
            if group.count > 1:
                count //= group.count  # noqa: PLW2901 - from cards to containers
                size *= group.count  # noqa: PLW2901
            if not count:
                total += 2 * weight * space
            elif cap[0] >= count:
                total += weight * (unfit_space + space - size * count)
            else:
                served = cap[1]
                held = 0
                for most, part in cap[2]:
                    held += part * (most if most < count else count)  # noqa: FURB136 - hot
                total += served * unfit_space + (2 * weight - served) * space - size * held
        return total

    def _caps(self, cpu_milli: int, memory_mib: int) -> list[_Caps]:
        key = (cpu_milli, memory_mib)
        found = self._caps_by_host.get(key)
        if found is None:
            if len(self._caps_by_host) >= _KEPT:
                self._caps_by_host.clear()
            cpu, memory = max(cpu_milli, 0), max(memory_mib, 0)
            found = [_caps_of(group, cpu, memory) for group in self._groups]
            self._caps_by_host[key] = found
        return found


def _less(node: NodeSnapshot, host: HostAmount) -> HostAmount | None:
    return None if node.host_free is None else node.host_free - host


def _caps_of(group: _Group, cpu_milli: int, memory_mib: int) -> _Caps:
    least = MANY
    if group.max_cpu:
        least = min(least, cpu_milli // group.max_cpu)
    if group.max_memory:
        least = min(least, memory_mib // group.max_memory)
    if least >= MANY:
        return _Caps(least, group.weight, ())
    members = []
    served = 0
    for cpu, memory, weight in group.members:
        most = cpu_milli // cpu if cpu else MANY
        if memory and memory_mib // memory < most:
            most = memory_mib // memory
        if most:
            served += weight
            members.append((most, weight))
    return _Caps(least, served, tuple(members))
