"""Nodes by rank, where what a pod would get on each is worked out only when somebody asks.

Of a thousand nodes that fit, the best one's cards are wanted, and those of a few runners-up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from hamid.sched.placement.place import NodePlacement, chosen_placement

if TYPE_CHECKING:
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.fragmentation import Choice


class _Ranked(Sequence[NodePlacement]):
    """As many as `__len__` says, each made by `_at`."""

    __slots__ = ()

    @abstractmethod
    def _at(self, place: int) -> NodePlacement: ...

    @overload
    def __getitem__(self, index: int) -> NodePlacement: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[NodePlacement]: ...

    def __getitem__(self, index: int | slice) -> NodePlacement | Sequence[NodePlacement]:
        if isinstance(index, slice):
            return self._part(index)
        return self._at(range(len(self))[index])

    def _part(self, places: slice) -> Sequence[NodePlacement]:
        return tuple(self._at(place) for place in range(len(self))[places])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} nodes)"


class Ranking(_Ranked):
    """What a pod of one container would get on each of some nodes, best first.

    Args:
        request: of the pod.
        found: nodes, with their devices in order, and the best choice on each; best first.
    """

    __slots__ = ("_found", "_made", "_request")

    def __init__(self, request: PodRequest, found: Sequence[tuple[NodeSnapshot, Choice]]) -> None:
        self._request = request
        self._found = found
        self._made: dict[int, NodePlacement] = {}

    def __len__(self) -> int:
        return len(self._found)

    def _part(self, places: slice) -> Ranking:
        return Ranking(self._request, self._found[places])

    def _at(self, place: int) -> NodePlacement:
        made = self._made.get(place)
        if made is None:
            node, choice = self._found[place]
            made = self._made[place] = chosen_placement(self._request, node, choice)
        return made


class Selected(_Ranked):
    """Some of another ranking, and then others.

    Args:
        ranked: the other.
        places: of those that stay, ascending.
        others: behind them.
    """

    __slots__ = ("_others", "_places", "_ranked")

    def __init__(
        self,
        ranked: Sequence[NodePlacement],
        places: Sequence[int],
        others: Sequence[NodePlacement],
    ) -> None:
        self._ranked = ranked
        self._places = places
        self._others = others

    def __len__(self) -> int:
        return len(self._places) + len(self._others)

    def _at(self, place: int) -> NodePlacement:
        kept = len(self._places)
        return self._ranked[self._places[place]] if place < kept else self._others[place - kept]
