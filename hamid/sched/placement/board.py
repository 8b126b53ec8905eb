"""All nodes, and for each shape the best of them: a decision costs what has changed since the last.

For pods of one container under the policy `fragmentation`, where only the answer is wanted and
not a ranking of all nodes. The answer is that of `place`.

A row has an entry for each node on a heap, best first. Its key is a bound of the score at first,
which all shapes with the same ask of cards share; it is made exact only when it comes to the top.
An entry counts as long as its stamp is the node's: one that was changed since is passed over.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from hamid.sched.placement.fragmentation import CPU_TIE, NO_CARDS, Fragmentation

if TYPE_CHECKING:
    from hamid.model.node import HostAmount, NodeSnapshot
    from hamid.sched.placement.fragmentation import Choice, View
    from hamid.sched.placement.typical import Arrivals, CardAsk

ROWS_KEPT: Final = 512
_HEAP_SLACK: Final = 4
_LOG_SLACK: Final = 16

_Entry = tuple[int, str, int, int, bool]
"""Minus the score or its bound, the node's name, its number and stamp, whether it is exact."""


class _Row:
    """One shape; its entries are right as of `position` in the log."""

    __slots__ = ("heap", "number", "position")

    def __init__(self, number: int) -> None:
        self.number = number
        self.heap: list[_Entry] | None = None
        self.position = 0


class Board:
    """The nodes that take part, by `put` and `drop`.

    Args:
        arrivals: whose typical shapes count; whoever decides about a pod observes it there.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._measure = Fragmentation(arrivals.typical)
        self._number_by_name: dict[str, int] = {}
        self._nodes: list[NodeSnapshot | None] = []
        self._views: list[View | None] = []
        self._stamps: list[int] = []
        self._log: list[int] = []
        self._rows: OrderedDict[tuple[CardAsk | None, HostAmount], _Row] = OrderedDict()

    def put(self, node: NodeSnapshot) -> None:
        """The node is new, or has changed."""
        number = self._number_by_name.get(node.node_name)
        if number is None:
            number = self._number_by_name[node.node_name] = len(self._nodes)
            self._nodes.append(None)
            self._views.append(None)
            self._stamps.append(0)
        if self._nodes[number] is not node:
            self._nodes[number] = node
            self._views[number] = self._measure.view(node)
            self._change(number)

    def drop(self, node_name: str) -> None:
        """The node takes part no more."""
        number = self._number_by_name.get(node_name)
        if number is not None and self._nodes[number] is not None:
            self._nodes[number] = self._views[number] = None
            self._change(number)

    def _change(self, number: int) -> None:
        self._stamps[number] += 1
        self._log.append(number)
        if len(self._log) > _LOG_SLACK * len(self._nodes) + _LOG_SLACK:
            self._log.clear()
            self._rows.clear()

    def best(self, ask: CardAsk | None, host: HostAmount) -> tuple[NodeSnapshot, Choice] | None:
        """The best node and its cards, for a pod that asks for this; None where none has room.

        Args:
            ask: None for a pod that asks for no card.
            host: what the pod asks of the node besides.
        """
        typical = self._arrivals.typical
        if self._measure.is_full:
            self._measure = Fragmentation(typical)
            view_of = self._measure.view
            self._views = [None if node is None else view_of(node) for node in self._nodes]
            self._rows.clear()
        elif typical.generation != self._measure.generation:
            self._measure.adopt(typical)
            refreshed = self._measure.refreshed
            self._views = [None if view is None else refreshed(view) for view in self._views]
            self._rows.clear()
        row = self._row(ask, host)
        heap = self._fresh(row, host)
        while heap:
            _, name, number, stamp, is_exact = heap[0]
            node, view = self._nodes[number], self._views[number]
            if stamp != self._stamps[number] or node is None or view is None:
                heappop(heap)
                continue
            choice = self._measure.choose(view, row.number, host)
            if choice is None:  # cannot be: it has a bound
                heappop(heap)
            elif is_exact:
                return node, choice
            else:
                heapreplace(heap, (-choice.score, name, number, stamp, True))
        return None

    def _row(self, ask: CardAsk | None, host: HostAmount) -> _Row:
        key = (ask, host)
        row = self._rows.get(key)
        if row is None:
            number = NO_CARDS if ask is None else self._measure.number(ask)
            row = self._rows[key] = _Row(number)
            if len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(key)
        return row

    def _fresh(self, row: _Row, host: HostAmount) -> list[_Entry]:
        """The row's entries, with those of the changed nodes."""
        heap = row.heap
        if heap is None or len(heap) > _HEAP_SLACK * len(self._nodes):
            heap = row.heap = self._entries(range(len(self._nodes)), row, host)
            heapify(heap)
        elif row.position < len(self._log):
            changed = set(self._log[row.position :])
            for entry in self._entries(changed, row, host):
                heappush(heap, entry)
        row.position = len(self._log)
        return heap

    def _entries(self, numbers: range | set[int], row: _Row, host: HostAmount) -> list[_Entry]:
        bound, number = self._measure.bound, row.number
        cpu_milli, memory_mib = host.cpu_milli, host.memory_mib
        extra = CPU_TIE * cpu_milli
        entries: list[_Entry] = []
        for n in numbers:
            view, node = self._views[n], self._nodes[n]
            if view is None or node is None:
                continue
            if (cpu_milli and view.cpu_milli < cpu_milli) or (
                memory_mib and view.memory_mib < memory_mib
            ):
                continue
            best = bound(view, number)
            if best is not None:
                entries.append((-best - extra, node.node_name, n, self._stamps[n], False))
        return entries
