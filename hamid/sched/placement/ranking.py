"""Nodes by rank, where what a pod would get on each is worked out only when somebody asks.

Of a thousand nodes that fit, the best one's cards are wanted, and those of a few runners-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from hamid.sched.placement.place import NodePlacement, chosen_placement

if TYPE_CHECKING:
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.fragmentation import Choice


class Ranking(Sequence[NodePlacement]):
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

    @overload
    def __getitem__(self, index: int) -> NodePlacement: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[NodePlacement, ...]: ...

    def __getitem__(self, index: int | slice) -> NodePlacement | tuple[NodePlacement, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self._found))))
        made = self._made.get(index)
        if made is None:
            node, choice = self._found[index]
            made = self._made[index] = chosen_placement(self._request, node, choice)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Ranking({len(self)} nodes)"
