"""The smallest change of several containers at once, where that of none alone would do.

All that ask for some of an amount get the same part of what they ask, rounded down: the most with which the pod
fits anywhere. Then, one kind of container after another, as much more of it as there is room for. So

1. no larger part of it would do for all of them;
2. one step more in all containers that ask for the same, and the pod would not fit.

Where several amounts must be less, one is found after the other, those that are yet to come at
their least: first as much memory as can be had at all, then as many cores as go with it, then as
many cards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.sched.placement.change import (
    Amount,
    Change,
    ChangeKind,
    Lowered,
    amount_of,
    asked_of,
    asking_for,
)
from hamid.sched.placement.distance import HELPED, without_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.model.shortfall import Shortfall
    from hamid.sched.placement.distance import Helped
    from hamid.sched.placement.trials import Trials, Tried

    _Fits = Callable[[int, NodeSnapshot], bool]

LEAST: Final = {
    Amount.MEMORY_MIB: 1,
    Amount.MEMORY_PERCENT: 1,
    Amount.CORES: 0,
    Amount.CARDS: 1,
}


class _Part(NamedTuple):
    """One amount of all containers of one kind.

    Attributes:
        number: of the kind.
    """

    number: int
    amount: Amount
    asked: int

    def at(self, level: int, of: int) -> int:
        """What they ask for at this part of it."""
        return max(LEAST[self.amount], self.asked * level // of)


def together(trials: Trials, kinds: Sequence[ChangeKind]) -> Change | None:
    """Less of these amounts, in as many containers as need be; None where that is not enough."""
    parts = [list(_parts(trials, kind)) for kind in kinds]
    if sum(len(trials.kinds[part.number]) for group in parts for part in group) <= 1:
        return None  # that has been tried
    return _Lowering(trials, parts).change(kinds)


def _parts(trials: Trials, kind: ChangeKind) -> Iterator[_Part]:
    for number, alike in enumerate(trials.kinds):
        amount = amount_of(kind, alike[0])
        asked = asked_of(alike[0], amount)
        if asked > LEAST[amount]:
            yield _Part(number, amount, asked)


class _Lowering:
    """What the containers are left, beginning with the least."""

    def __init__(self, trials: Trials, parts: Sequence[Sequence[_Part]]) -> None:
        self._trials = trials
        self._parts = parts
        self._values = {part: LEAST[part.amount] for group in parts for part in group}
        self._requests: dict[tuple[int, ...], PodRequest] = {}
        self._nodes: list[NodeSnapshot] = []
        self._is_sure = False

    def change(self, kinds: Sequence[ChangeKind]) -> Change | None:
        """The change; see the module."""
        helped, least = _helped(kinds), self._request()
        self._nodes = [
            each.node
            for each in self._trials.tried
            if _may_help(each, helped) and self._trials.may_fit(least, each.node)
        ]
        for group in self._parts:
            self._raise_all(group)
            if not self._nodes:
                return None
            for part in group:
                self._raise_one(part)
        lowered = tuple(self._lowered())
        kind = kinds[0] if len(kinds) == 1 else ChangeKind.PART
        change = Change(kind=kind, node_name=self._nodes[0].node_name, lowered=lowered)
        return change if lowered and self._trials.is_placed(change) else None

    def _raise_all(self, group: Sequence[_Part]) -> None:
        """To the same part of what they ask: the most that fits anywhere."""
        whole = max((part.asked for part in group), default=0)

        def fits(level: int, node: NodeSnapshot) -> bool:
            values = {part: part.at(level, whole) for part in group}
            return self._trials.fits(self._request(values), node)

        best = self._most(fits, 0, whole)
        self._values.update({part: part.at(best, whole) for part in group})

    def _raise_one(self, part: _Part) -> None:
        """To the most that fits beside what the others have."""

        def fits(value: int, node: NodeSnapshot) -> bool:
            return self._trials.fits(self._request({part: value}), node)

        self._values[part] = self._most(fits, self._values[part], part.asked)

    def _most(self, fits: _Fits, known: int, limit: int) -> int:
        """The highest that fits on any of the nodes; only those that it fits on are kept.

        Args:
            fits: whether so much does on a node; the less the rather.
            known: it does on all of them, once that is sure.
            limit: nothing higher is asked for.
        """
        best, kept = known, []
        for node in self._nodes:
            if best < limit and fits(best + 1, node):
                best, kept = _last(fits, node, best + 1, limit), [node]
            elif (best == known and self._is_sure) or fits(best, node):
                kept.append(node)
        self._is_sure = True
        self._nodes = kept
        return best

    def _request(self, other: dict[_Part, int] | None = None) -> PodRequest:
        values = self._values | (other or {})
        key = tuple(values.values())
        found = self._requests.get(key)
        if found is None:
            by_name = {each.container_name: each for each in self._trials.request.requests}
            for part, value in values.items():
                for each in self._trials.kinds[part.number]:
                    name = each.container_name
                    by_name[name] = asking_for(by_name[name], part.amount, value)
            found = replace(self._trials.request, requests=tuple(by_name.values()))
            self._requests[key] = found
        return found

    def _lowered(self) -> Iterator[Lowered]:
        for part, value in self._values.items():
            if value < part.asked:
                for container in self._trials.kinds[part.number]:
                    yield _lowered(container, part, value)


def _lowered(container: ContainerRequest, part: _Part, value: int) -> Lowered:
    return Lowered(
        container_name=container.container_name,
        amount=part.amount,
        asked=part.asked,
        fitting=value,
    )


def _helped(kinds: Sequence[ChangeKind]) -> Helped | None:
    """By how much which shortfall must change at least; None where cards may be fewer."""
    if ChangeKind.CARDS in kinds:
        return None
    if kinds == (ChangeKind.CORES,):
        return HELPED[Amount.CORES]
    memory = _memory_step
    return without_cores(memory) if ChangeKind.CORES in kinds else memory


def _memory_step(shortfall: Shortfall) -> int | None:
    """Any memory may be less, whatever its unit."""
    return 1 if HELPED[Amount.MEMORY_PERCENT](shortfall) is not None else None


def _may_help(tried: Tried, helped: Helped | None) -> bool:
    """Whether each kind of container alone would find its cards with the change."""
    return helped is None or all(
        refusal is None or refusal.bound(helped) is not None for refusal in tried.refusals
    )


def _last(fits: _Fits, node: NodeSnapshot, low: int, high: int) -> int:
    """The highest number up to `high` that fits; `low` does."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle, node):
            low = middle
        else:
            high = middle - 1
    return low
