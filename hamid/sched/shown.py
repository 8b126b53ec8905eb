"""The nodes that the watch shows, as they are now, ready to be handed out by the thousand.

kube-scheduler sends all names with each call, in an order of its own, and since the last call only
a few nodes have changed: those alone are looked at again. Within a call they are asked for more than
once: as long as nothing has changed, the answer is the same value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.model.node import NodeSnapshot
    from hamid.sched.known_node import KnownNode


class Shown:
    """Snapshots by name; whoever changes a node says so.

    Args:
        nodes: all that are known, by name; read whenever one of them has changed.
    """

    def __init__(self, nodes: Mapping[str, KnownNode]) -> None:
        self._nodes = nodes
        self._snapshots: dict[str, NodeSnapshot] = {}
        self._changed: set[str] = set()
        self._last: tuple[tuple[str, ...], Mapping[str, NodeSnapshot]] = ((), {})

    def change(self, node_name: str) -> None:
        """The node is not what it was."""
        self._changed.add(node_name)

    def clear(self) -> None:
        """No node is shown any more."""
        self._snapshots.clear()
        self._changed.clear()
        self._last = ((), {})

    def get(self, node_name: str) -> NodeSnapshot | None:
        """The node, if it is shown."""
        self._look_again()
        return self._snapshots.get(node_name)

    def of(self, node_names: tuple[str, ...]) -> Mapping[str, NodeSnapshot]:
        """Those of the nodes that are shown, in the order given."""
        self._look_again()
        last_names, last = self._last
        if node_names is last_names:
            return last
        shown = self._snapshots
        found = {name: shown[name] for name in node_names if name in shown}
        self._last = node_names, found
        return found

    def _look_again(self) -> None:
        if not self._changed:
            return
        for name in self._changed:
            node = self._nodes.get(name)
            if node is not None and node.is_listed:
                self._snapshots[name] = node.book.snapshot()
            else:
                self._snapshots.pop(name, None)
        self._changed.clear()
        self._last = ((), {})
