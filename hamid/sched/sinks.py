"""The sinks through which the watches of nodes, pods and quotas feed the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from hamid.kube.port import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.kube.port import JsonObject, WatchEvent
    from hamid.sched.cache import ClusterCache


class NodeSink:
    """Takes what the watch of nodes brings."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """All nodes, from a list."""
        self._cache.take_nodes(objects)

    def apply(self, event: WatchEvent) -> None:
        """One change."""
        match event.kind:
            case EventKind.ADDED | EventKind.MODIFIED:
                self._cache.take_node(event.object)
            case EventKind.DELETED:
                self._cache.drop_node(event.object["metadata"]["name"])
            case EventKind.BOOKMARK:
                pass
            case _:
                assert_never(event.kind)


class PodSink:
    """Takes what the watch of pods brings."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """All pods, from a list."""
        self._cache.take_pods(objects)

    def replace_in_slices(self, objects: tuple[JsonObject, ...]) -> Iterator[None]:
        """The same with pauses: there are tens of thousands."""
        return self._cache.taking_pods(objects)

    def apply(self, event: WatchEvent) -> None:
        """One change."""
        match event.kind:
            case EventKind.ADDED | EventKind.MODIFIED:
                self._cache.take_pod(event.object)
            case EventKind.DELETED:
                self._cache.drop_pod(event.object["metadata"]["uid"])
            case EventKind.BOOKMARK:
                pass
            case _:
                assert_never(event.kind)


class QuotaSink:
    """Takes what the watch of quotas brings."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """All quotas, from a list."""
        self._cache.take_quotas(objects)

    def apply(self, event: WatchEvent) -> None:
        """One change."""
        match event.kind:
            case EventKind.ADDED | EventKind.MODIFIED:
                self._cache.quotas.take(event.object)
            case EventKind.DELETED:
                meta = event.object["metadata"]
                self._cache.quotas.drop(meta["namespace"], meta["name"])
            case EventKind.BOOKMARK:
                pass
            case _:
                assert_never(event.kind)
