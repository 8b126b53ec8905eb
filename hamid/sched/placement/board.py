"""All nodes, and how they stand for each shape: a decision costs what has changed since the last.

For pods of one container under the policy `fragmentation`. The answer is that of `place`.

A row has an entry for each node that fits on a heap, best first. Its key is a bound of the score at
first, which all shapes with the same ask of cards share; it is made exact only when it comes to the
top. An entry counts as long as its key is the node's: one that was changed since is passed over.
When other shapes become typical, nodes keep their states, and only their figures are worked out anew.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush, heapreplace
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.sched.placement.fragmentation import CPU_TIE, NO_CARDS, Fragmentation
from hamid.sched.placement.place import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hamid.model.node import HostAmount, NodeSnapshot
    from hamid.sched.placement.fragmentation import Choice, View
    from hamid.sched.placement.refusal import Refusal
    from hamid.sched.placement.typical import Arrivals, CardAsk

ROWS_KEPT: Final = 128
"""At 1,000 nodes, a row takes up to two hundred kilobytes."""
_HEAP_SLACK: Final = 4
_LOG_SLACK: Final = 16
_NODES_SLACK: Final = 16
_FEW: Final = 64
"""Nodes that are set aside, or taken back, for one pod; for more a heap is made of those that count."""

_Entry = tuple[int, str, int]
"""Minus the score or its bound, the node's name, its number."""


class _Row:
    """One shape; it is right as of `position` in the log.

    Attributes:
        keys, choices: by the nodes' numbers; a node with a choice has the exact key.
        refusing: numbers of nodes whose cards do not do, and of which nobody has asked why.
        refusals: why those do not do of which somebody has.
        aside: names of nodes that fit and are not on the heap, for they did not count of late.
    """

    __slots__ = (
        "aside",
        "choices",
        "fitting_count",
        "heap",
        "keys",
        "number",
        "position",
        "refusals",
        "refusing",
    )

    def __init__(self, number: int, node_count: int) -> None:
        self.number = number
        self.heap: list[_Entry] = []
        self.keys: list[int | None] = [None] * node_count
        self.choices: list[Choice | None] = [None] * node_count
        self.fitting_count = 0
        self.refusing: set[int] = set()
        self.refusals: dict[str, Refusal] = {}
        self.aside: set[str] = set()
        self.position = 0


class Standing(NamedTuple):
    """How nodes stand for one shape.

    Attributes:
        found: the best of those that fit, with the devices of each in order, and the best cards.
        fitting_count: how many fit.
        refusals: why the cards of the others do not do.
    """

    found: list[tuple[NodeSnapshot, Choice]]
    fitting_count: int
    refusals: Mapping[str, Refusal]


class Board:
    """The nodes that take part, by `put` and `drop`.

    Args:
        arrivals: whose typical shapes count; whoever decides about a pod observes it there.
        heeds_host: leave out nodes whose hosts have too little free; whoever shows only nodes that
            have enough may say no.
        rows_kept: of the shapes asked for last.
    """

    def __init__(
        self, arrivals: Arrivals, *, heeds_host: bool = True, rows_kept: int = ROWS_KEPT
    ) -> None:
        self._arrivals = arrivals
        self._heeds_host = heeds_host
        self._rows_kept = rows_kept
        self._measure = Fragmentation(arrivals.typical)
        self._rows: OrderedDict[tuple[CardAsk | None, HostAmount], _Row] = OrderedDict()
        self._forget_nodes()

    def _forget_nodes(self) -> None:
        self._given: dict[str, NodeSnapshot] = {}
        self._most_given = 0
        self._number_by_name: dict[str, int] = {}
        self._names: list[str] = []
        self._nodes: list[NodeSnapshot | None] = []
        self._views: list[View | None] = []
        self._log: list[int] = []
        self._rows.clear()

    @property
    def measure(self) -> Fragmentation:
        """The one by which nodes stand as they do."""
        return self._measure

    # Nodes.

    def put(self, node: NodeSnapshot) -> None:
        """The node is new, or has changed."""
        name = node.node_name
        if self._given.get(name) is node:
            return
        self._given[name] = node
        number = self._number_by_name.get(name)
        if number is None:
            number = self._number_by_name[name] = len(self._nodes)
            self._names.append(name)
            self._nodes.append(None)
            self._views.append(None)
        ordered = in_order(node)
        self._nodes[number] = ordered
        self._views[number] = self._measure.view(ordered)
        self._change(number)

    def drop(self, node_name: str) -> None:
        """The node takes part no more."""
        if self._given.pop(node_name, None) is not None:
            number = self._number_by_name[node_name]
            self._nodes[number] = self._views[number] = None
            self._change(number)

    def see(self, nodes: Mapping[str, NodeSnapshot]) -> Mapping[str, NodeSnapshot] | None:
        """Put these; returns them, or None if they are all there are.

        Others are forgotten once they are most of all: they may be gone.
        """
        self._most_given = max(self._most_given, len(nodes))
        given = self._given
        shown = nodes.values()
        for node in compress(shown, map(is_not, map(given.get, nodes), shown)):
            self.put(node)
        if len(given) == len(nodes):
            return None
        if len(given) > 2 * self._most_given + _NODES_SLACK:
            self._forget_nodes()
            return self.see(nodes)
        return nodes

    def _change(self, number: int) -> None:
        self._log.append(number)
        if len(self._log) > _LOG_SLACK * len(self._nodes) + _LOG_SLACK:
            self._log.clear()
            self._rows.clear()

    # Shapes.

    def adopt(self) -> bool:
        """Take what is typical by now; returns whether nothing that was found before holds any more."""
        typical = self._arrivals.typical
        if self._measure.is_full:
            self._measure = Fragmentation(typical)
            view_of = self._measure.view
            self._views = [None if node is None else view_of(node) for node in self._nodes]
        elif typical.generation != self._measure.generation:
            self._measure.adopt(typical)
            refreshed = self._measure.refreshed
            self._views = [None if view is None else refreshed(view) for view in self._views]
        else:
            return False
        self._rows.clear()
        return True

    def best(self, ask: CardAsk | None, host: HostAmount) -> tuple[NodeSnapshot, Choice] | None:
        """The best node and its cards, for a pod that asks for this; None where none has room.

        Args:
            ask: None for a pod that asks for no card.
            host: what the pod asks of the node besides.
        """
        self.adopt()
        row = self._row(ask, host)
        found = self._ranked(row, host, 1, None)
        return found[0] if found else None

    def standing(
        self,
        ask: CardAsk,
        host: HostAmount,
        *,
        wanted: int | None,
        among: Mapping[str, NodeSnapshot] | None,
        explain: Callable[[View], Refusal],
    ) -> Standing:
        """How the nodes stand for a pod that asks for this, by what was typical at `adopt`.

        Args:
            ask: for cards.
            host: what the pod asks of the node besides.
            wanted: so many of the best; None for all.
            among: the nodes that count, by name; None for all.
            explain: says why cards in these states do not do.
        """
        row = self._row(ask, host)
        for number in row.refusing:
            node, view = self._nodes[number], self._views[number]
            if node is not None and view is not None:
                row.refusals[node.node_name] = explain(view)
        row.refusing.clear()
        refusals, fitting_count = dict(row.refusals), row.fitting_count
        if among is not None:
            for name in set(refusals).difference(among):
                del refusals[name]
            fitting_count = len(among) - len(refusals)
        found = self._ranked(row, host, fitting_count if wanted is None else wanted, among)
        return Standing(found, fitting_count, refusals)

    def _row(self, ask: CardAsk | None, host: HostAmount) -> _Row:
        """The shape's row, brought up to date."""
        key = (ask, host)
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
            missing = len(self._nodes) - len(row.keys)
            row.keys += [None] * missing
            row.choices += [None] * missing
            if row.position < len(self._log):
                changed = set(self._log[row.position :])
                for number in changed:
                    self._take_out(row, number)
                for entry in self._entries(changed, row, host):
                    heappush(row.heap, entry)
        if row is None or len(row.heap) > _HEAP_SLACK * len(self._nodes):
            number = NO_CARDS if ask is None else self._measure.number(ask)
            row = self._rows[key] = _Row(number, len(self._nodes))
            row.heap = self._entries(range(len(self._nodes)), row, host)
            heapify(row.heap)
            if len(self._rows) > self._rows_kept:
                self._rows.popitem(last=False)
        row.position = len(self._log)
        return row

    def _take_out(self, row: _Row, number: int) -> None:
        if row.keys[number] is not None:
            row.fitting_count -= 1
        row.keys[number] = row.choices[number] = None
        row.refusing.discard(number)
        row.refusals.pop(self._names[number], None)
        row.aside.discard(self._names[number])

    def _entries(self, numbers: Iterable[int], row: _Row, host: HostAmount) -> list[_Entry]:
        """Those of the nodes that fit, which are none of the row's yet."""
        bound, ask_number, keys = self._measure.bound, row.number, row.keys
        cpu_milli, memory_mib = host.cpu_milli, host.memory_mib
        extra = CPU_TIE * cpu_milli
        entries: list[_Entry] = []
        for number in numbers:
            view = self._views[number]
            if view is None:
                continue
            if self._heeds_host and (
                (cpu_milli and view.cpu_milli < cpu_milli)
                or (memory_mib and view.memory_mib < memory_mib)
            ):
                continue
            best = bound(view, ask_number)
            if best is None:
                row.refusing.add(number)
            else:
                key = keys[number] = -best - extra
                entries.append((key, self._names[number], number))
        row.fitting_count += len(entries)
        return entries

    def _some(self, row: _Row, among: Mapping[str, NodeSnapshot]) -> list[_Entry]:
        """A heap of these nodes alone."""
        heap: list[_Entry] = []
        for name in among:
            number = self._number_by_name[name]
            key = row.keys[number]
            if key is not None:
                heap.append((key, name, number))
        heapify(heap)
        return heap

    def _ranked(
        self, row: _Row, host: HostAmount, wanted: int, among: Mapping[str, NodeSnapshot] | None
    ) -> list[tuple[NodeSnapshot, Choice]]:
        """So many of the best of these nodes, or of all.

        kube-scheduler leaves out much the same nodes for pods that ask for the same: they are set
        aside, so that they are not in the way each time.
        """
        back = row.aside if among is None else row.aside.intersection(among)
        if among is not None and (wanted > _FEW or len(back) > _FEW):
            return self._best_on(row, host, self._some(row, among), wanted)
        for name in back:
            number = self._number_by_name[name]
            if (key := row.keys[number]) is not None:
                heappush(row.heap, (key, name, number))
        row.aside = row.aside.difference(back)
        if among is None:
            return self._best_on(row, host, row.heap, wanted)
        most = len(row.aside) + _FEW
        found = self._best_on(row, host, row.heap, wanted, among)
        if len(row.aside) <= most:
            return found
        return self._best_on(row, host, self._some(row, among), wanted)

    def _best_on(
        self,
        row: _Row,
        host: HostAmount,
        heap: list[_Entry],
        wanted: int,
        among: Mapping[str, NodeSnapshot] | None = None,
    ) -> list[tuple[NodeSnapshot, Choice]]:
        """So many of the best on the heap, which is the row's or of some of its nodes.

        Where only those among some count, the others are set aside: `_FEW`, or one more for too many.
        """
        if among is None and wanted > 1 and 2 * wanted >= len(heap):
            return self._sorted(row, host, heap)[:wanted]
        found: list[tuple[NodeSnapshot, Choice]] = []
        taken: list[_Entry] = []
        most = len(row.aside) + _FEW
        while heap and len(found) < wanted and len(row.aside) <= most:
            key, name, number = entry = heap[0]
            node, view, choice = self._nodes[number], self._views[number], row.choices[number]
            is_twice = bool(taken) and entry == taken[-1]
            if key != row.keys[number] or node is None or view is None or is_twice:
                heappop(heap)
            elif among is not None and name not in among:
                row.aside.add(heappop(heap)[1])
            elif choice is not None:
                found.append((node, choice))
                if wanted > 1:
                    taken.append(heappop(heap))
            elif (exact := self._sharpen(row, host, number, view)) is not None:
                heapreplace(heap, exact)
                if heap is not row.heap:
                    heappush(row.heap, exact)
        for entry in taken:
            heappush(heap, entry)
        return found

    def _sharpen(self, row: _Row, host: HostAmount, number: int, view: View) -> _Entry | None:
        """Choose cards of the node; returns its entry, with its exact key."""
        choice = row.choices[number] = self._measure.choose(view, row.number, host)
        if choice is None:  # cannot be: it has a bound
            row.keys[number] = None
            return None
        key = row.keys[number] = -choice.score
        return key, self._names[number], number

    def _sorted(
        self, row: _Row, host: HostAmount, heap: list[_Entry]
    ) -> list[tuple[NodeSnapshot, Choice]]:
        """All on the heap, best first; where it is the row's, it is sorted as well, and stays a heap."""
        entries: list[_Entry] = []
        for key, name, number in heap:
            view = self._views[number]
            if key != row.keys[number] or view is None:
                continue
            entry: _Entry | None = (key, name, number)
            if row.choices[number] is None:
                entry = self._sharpen(row, host, number, view)
                if entry is not None and heap is not row.heap:
                    heappush(row.heap, entry)
            if entry is not None:
                entries.append(entry)
        entries = sorted(dict.fromkeys(entries))
        if heap is row.heap:
            row.heap = entries
        found: list[tuple[NodeSnapshot, Choice]] = []
        for _, _, number in entries:
            node, choice = self._nodes[number], row.choices[number]
            if node is not None and choice is not None:
                found.append((node, choice))
        return found
