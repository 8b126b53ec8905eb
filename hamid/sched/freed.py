"""Where room may have become free, and in which order: what wakes pods that wait.

Counted, not timed: a pod that was refused at serial 7 may fit on a node where something became
free at serial 8. It says "may": whoever listens looks at the books before anything is done.
The books tell when a pod lets go, a card or a host offers more or is no longer cordoned, and in which
namespace a quota leaves more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hamid.sched.news import News

if TYPE_CHECKING:
    from collections.abc import Iterator


_NAMESPACES_KEPT: Final = 1_024
"""Namespaces come and go; of those before, only the last time is known: each may be one of them."""


class Freed:
    """Serial numbers of the times at which room may have become free."""

    def __init__(self) -> None:
        self._serial = 0
        self._last_everywhere = 0
        self._last_by_node: dict[str, int] = {}
        self._last_by_namespace: dict[str, int] = {}
        self._last_in_others = 0
        self._news = News()

    @property
    def serial(self) -> int:
        """Counts the times so far."""
        return self._serial

    def on(self, node_name: str) -> None:
        """Room may have become free on this node."""
        self._last_by_node.pop(node_name, None)
        self._last_by_node[node_name] = self._count()

    def everywhere(self) -> None:
        """What kept pods away from any node may do so no more."""
        self._last_everywhere = self._count()

    def in_namespace(self, namespace: str) -> None:
        """What kept pods of this namespace away from any node may do so no more."""
        self._last_by_namespace.pop(namespace, None)
        self._last_by_namespace[namespace] = self._count()
        if len(self._last_by_namespace) > _NAMESPACES_KEPT:
            oldest = next(iter(self._last_by_namespace))
            self._last_in_others = self._last_by_namespace.pop(oldest)

    def since(self, serial: int, *, among: frozenset[str], namespace: str) -> frozenset[str]:
        """Those nodes on which there was a time after this serial, for a pod of the namespace."""
        in_namespace = self._last_by_namespace.get(namespace, self._last_in_others)
        if max(self._last_everywhere, in_namespace) > serial:
            return among
        return frozenset(name for name in self._after(serial) if name in among)

    def _after(self, serial: int) -> Iterator[str]:
        # The order of the times, the newest first: whoever was tried lately is soon done.
        for name, last in reversed(self._last_by_node.items()):
            if last <= serial:
                return
            yield name

    def drop(self, node_name: str) -> None:
        """The node is gone: nothing can be had there any more."""
        self._last_by_node.pop(node_name, None)

    def forget(self) -> None:
        """No time so far counts any more."""
        self._last_everywhere = self._last_in_others = 0
        self._last_by_node.clear()
        self._last_by_namespace.clear()

    async def wait(self, *, since: int, timeout_s: float) -> None:
        """Wait until the serial is past `since`, but no longer than this."""
        await self._news.wait(lambda: self._serial > since, timeout_s=timeout_s)

    def _count(self) -> int:
        self._serial += 1
        self._news.tell()
        return self._serial
