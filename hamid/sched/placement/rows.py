"""`place`, made incremental: a row of outcomes per shape of request, one cell a node.

Many pods ask for the same, and between two decisions few nodes change. A cell holds good for as
long as the node's snapshot is the same value (by identity: the books hand out the same one until
something changes), so that a decision costs a look at each node and work on those that changed.
The answer is always that of `place`.

Nodes in the same state are searched once (`Alike`). Pods of one container under the policy
`fragmentation` are most of them, and stand on a `Board`: what a refusal says is worked out once a
state, what a pod gets only where it is asked for (`Ranking`).
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hamid.sched.placement.alike import Alike, state_of
from hamid.sched.placement.board import Board
from hamid.sched.placement.place import (
    Placement,
    Unplaceable,
    in_order,
    lone_ask,
    place_on_node,
    ranked,
)
from hamid.sched.placement.policy import BY_FRAGMENTATION
from hamid.sched.placement.ranking import Ranking
from hamid.sched.placement.refusal import AlikeRefusals, Refusal
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.cardstates import Card
    from hamid.sched.placement.fragmentation import Fragmentation, View
    from hamid.sched.placement.place import NodePlacement
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.typical import CardAsk

_K = TypeVar("_K")
_V = TypeVar("_V")

ROWS_KEPT: Final = 32
"""Rows of whole outcomes; at 1,000 nodes of eight cards, one takes up to two megabytes."""

_SLACK: Final = 16
_SLICE: Final = 8
"""Containers searched for in a slice; each takes a millisecond or so."""
_REFUSALS_KEPT: Final = 4_096


class _Cell(NamedTuple):
    node: NodeSnapshot
    outcome: NodePlacement | Refusal


class Placer:
    """Places pods by the same policies, and remembers what it found.

    Attributes:
        arrivals: what usually comes; whoever asks about a new pod observes it there.
    """

    def __init__(
        self, *, policies: Policies, rows_kept: int = ROWS_KEPT, arrivals: Arrivals | None = None
    ) -> None:
        self.arrivals = arrivals or Arrivals()
        self._policies = policies
        self._board = Board(self.arrivals, heeds_host=False)
        self._rows_kept = rows_kept
        self._alike = Alike()
        self._rows: OrderedDict[PodRequest, dict[str, _Cell]] = OrderedDict()
        self._refusals: dict[tuple[tuple[Card, ...], int], Refusal] = {}

    @property
    def measure(self) -> Fragmentation:
        """The one by which it has placed last."""
        return self._board.measure

    def place(
        self,
        request: PodRequest,
        nodes: Mapping[str, NodeSnapshot],
        *,
        wanted: int | None = None,
    ) -> Placement | Unplaceable:
        """Return what `place` returns for nodes that nobody changes any more, by name.

        Where only so many of the best are wanted, maybe only those.
        """
        self._adopt()
        ask = self._ask_by_choice(request)
        if ask is not None:
            return self._place_by_choice(request, ask, nodes, wanted)
        return self._place_by_search(request, nodes.values())

    def warming(self, request: PodRequest, nodes: Iterable[NodeSnapshot]) -> Iterator[None]:
        """Do most of the work of `place` beforehand, in slices: others may run after each.

        A pod of several containers costs a search a node, on a thousand nodes a second together.
        """
        self._adopt()
        if self._ask_by_choice(request) is not None:
            return
        shape, searched = request.anonymous, 0
        row = _row(self._rows, shape, self._rows_kept)
        for node in nodes:
            cell = row.get(node.node_name)
            if cell is not None and cell.node is node:
                continue
            row[node.node_name] = self._searched(request, shape, node)
            searched += len(request.requests)
            if searched >= _SLICE:
                searched = 0
                yield
                row = _row(self._rows, shape, self._rows_kept)  # others may have forgotten it

    def _adopt(self) -> None:
        if self._board.adopt():
            self._rows.clear()
            self._refusals.clear()
            self._alike.clear()

    def _ask_by_choice(self, request: PodRequest) -> CardAsk | None:
        if self._policies.for_request(request) != BY_FRAGMENTATION:
            return None
        return lone_ask(request)

    def _searched(self, request: PodRequest, shape: PodRequest, node: NodeSnapshot) -> _Cell:
        def search(node: NodeSnapshot) -> NodePlacement | Refusal:
            return place_on_node(request, node, policies=self._policies, measure=self.measure)

        if request.selection.names_single_devices:
            return _Cell(node, search(node))
        ordered = in_order(node)
        state = state_of(ordered, self.measure.view(ordered).cards)
        return _Cell(node, self._alike.outcome((shape, state), ordered, search))

    def _place_by_search(
        self, request: PodRequest, nodes: Iterable[NodeSnapshot]
    ) -> Placement | Unplaceable:
        shape = request.anonymous
        row = _row(self._rows, shape, self._rows_kept)
        outcomes: dict[str, NodePlacement | Refusal] = {}
        for node in nodes:
            cell = row.get(node.node_name)
            if cell is None or cell.node is not node:
                cell = row[node.node_name] = self._searched(request, shape, node)
            outcomes[node.node_name] = cell.outcome
        _forget_others(row, outcomes)
        return ranked(outcomes)

    def _place_by_choice(
        self,
        request: PodRequest,
        ask: CardAsk,
        nodes: Mapping[str, NodeSnapshot],
        wanted: int | None,
    ) -> Placement | Unplaceable:
        among = self._board.see(nodes)
        standing = self._board.standing(
            ask,
            request.host,
            wanted=wanted,
            among=among,
            explain=partial(self._refusal, self.measure.number(ask)),
        )
        refusals = AlikeRefusals(standing.refusals, partial(self._searched_refusal, request, nodes))
        if not standing.found:
            return Unplaceable(refusals=refusals)
        return Placement(
            ranked=Ranking(request, standing.found),
            node_names=tuple([node.node_name for node, _ in standing.found]),
            fitting_count=standing.fitting_count,
            refusals=refusals,
        )

    def _refusal(self, number: int, view: View) -> Refusal:
        key = (view.cards, number)
        alike = self._refusals.get(key)
        if alike is None:
            if len(self._refusals) >= _REFUSALS_KEPT:
                self._refusals.clear()
            alike = self._refusals[key] = self.measure.refusal(view, number)
        return alike

    def _searched_refusal(
        self, request: PodRequest, nodes: Mapping[str, NodeSnapshot], node_name: str
    ) -> Refusal:
        node = nodes[node_name]
        outcome = place_on_node(request, node, policies=self._policies, measure=self.measure)
        # Without a choice there is no placement.
        return outcome if isinstance(outcome, Refusal) else Refusal(())


def _row(rows: OrderedDict[_K, dict[str, _V]], key: _K, kept: int) -> dict[str, _V]:
    row = rows.get(key)
    if row is None:
        row = rows[key] = {}
        while len(rows) > kept:
            rows.popitem(last=False)
    else:
        rows.move_to_end(key)
    return row


def _forget_others(by_name: dict[str, _V], names: Collection[str]) -> None:
    """Forget the nodes of other names, most likely gone, once they are most of all."""
    if len(by_name) > 2 * len(names) + _SLACK:
        for name in by_name.keys() - names:
            del by_name[name]
