"""`place`, made incremental: a row of outcomes per shape of request, one cell a node.

Many pods ask for the same, and between two decisions few nodes change. A cell holds good for as
long as the node's snapshot is the same value (by identity: the books hand out the same one until
something changes), so that a decision costs a look at each node and work on those that changed.
The answer is always that of `place`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import place_on_node, ranked
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.place import NodePlacement, Placement, Unplaceable
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal

ROWS_KEPT: Final = 32
"""At 1,000 nodes of eight cards, a row takes up to two megabytes."""

_SLACK: Final = 16


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
        self._measure = Fragmentation(self.arrivals.typical)
        self._rows_kept = rows_kept
        self._rows: OrderedDict[PodRequest, dict[str, _Cell]] = OrderedDict()

    def place(self, request: PodRequest, nodes: Iterable[NodeSnapshot]) -> Placement | Unplaceable:
        """Return what `place` returns."""
        typical = self.arrivals.typical
        if typical.generation != self._measure.generation:
            self._measure = Fragmentation(typical)
            self._rows.clear()
        shape = replace(request, pod_uid="", namespace="", pod_name="", container_names=())
        row = self._row(shape)
        outcomes: dict[str, NodePlacement | Refusal] = {}
        for node in nodes:
            cell = row.get(node.node_name)
            if cell is None or cell.node is not node:
                outcome = place_on_node(
                    request, node, policies=self._policies, measure=self._measure
                )
                cell = row[node.node_name] = _Cell(node, outcome)
            outcomes[node.node_name] = cell.outcome
        if len(row) > 2 * len(outcomes) + _SLACK:
            for name in row.keys() - outcomes.keys():  # most likely nodes that are gone
                del row[name]
        return ranked(outcomes)

    def _row(self, shape: PodRequest) -> dict[str, _Cell]:
        row = self._rows.get(shape)
        if row is None:
            row = self._rows[shape] = {}
            while len(self._rows) > self._rows_kept:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(shape)
        return row
