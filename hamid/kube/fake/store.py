"""Objects, their versions, and who watches them: what etcd and the watch cache are to a server.

Synchronous and without rules: what an object may be, and what becomes of it, is decided in
`rules` and `api`. Invariants:

1. A stored object is never changed in place; what is handed in and out belongs to the store until
   the boundary copies it (`copied`).
2. Every change has its own resourceVersion, counted over all resources, as in etcd.
3. A subscription misses nothing after the version it began at, or begins with `Gone`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from hamid.kube.errors import Gone
from hamid.kube.port import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.kube.fake.selectors import Predicate
    from hamid.kube.port import JsonObject, Resource

HISTORY_LENGTH: Final = 5_000

Key = tuple[str | None, str]


def copied(value: Any) -> Any:
    """A deep copy of JSON; faster than any other, and refuses what JSON cannot say."""
    return orjson.loads(orjson.dumps(value))


def key_of(item: JsonObject) -> Key:
    """Namespace and name."""
    metadata = item["metadata"]
    return metadata.get("namespace"), metadata["name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the history: what an object became, and what it was before."""

    version: int
    kind: EventKind
    object: JsonObject
    before: JsonObject | None


@dataclass(slots=True, eq=False)
class Subscription:
    """The changes that one watcher has yet to see, as its selector sees them."""

    matches: Predicate
    pending: deque[tuple[EventKind, JsonObject]] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, change: Change) -> None:
        """Take the change, translated: to enter the selection is ADDED, to leave it DELETED."""
        was = change.before is not None and self.matches(change.before)
        is_now = change.kind is not EventKind.DELETED and self.matches(change.object)
        if is_now:
            self._push(EventKind.MODIFIED if was else EventKind.ADDED, change.object)
        elif was and change.before is not None:
            last = change.object if change.kind is EventKind.DELETED else change.before
            self._push(EventKind.DELETED, at_version(last, change.version))

    def _push(self, kind: EventKind, item: JsonObject) -> None:
        self.pending.append((kind, item))
        self.arrived.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether something arrived within the time."""
        if self.pending:
            return True
        self.arrived.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self.arrived.wait()
        except TimeoutError:
            return False
        return True


def at_version(item: JsonObject, version: int) -> JsonObject:
    """The object with this resourceVersion."""
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}


class Store:
    """All objects of one server.

    Args:
        history_length: how many changes of a resource a watch can go back.
    """

    def __init__(self, *, history_length: int = HISTORY_LENGTH) -> None:
        self.version = 1
        self._objects: dict[Resource, dict[Key, JsonObject]] = {}
        self._history: dict[Resource, deque[Change]] = {}
        self._history_length = history_length
        self._compacted_at: dict[Resource, int] = {}
        self._compacted_all_at = 0
        self._subscriptions: dict[Resource, set[Subscription]] = {}

    @property
    def watcher_count(self) -> int:
        """How many subscriptions are open."""
        return sum(len(open_ones) for open_ones in self._subscriptions.values())

    def get(self, resource: Resource, namespace: str | None, name: str) -> JsonObject | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def select(self, resource: Resource, matches: Predicate) -> list[JsonObject]:
        """The objects that match, by namespace and name."""
        found = [item for item in self._objects.get(resource, {}).values() if matches(item)]
        return sorted(found, key=lambda item: tuple(part or "" for part in key_of(item)))

    def everything(self) -> Iterator[tuple[Resource, JsonObject]]:
        """All objects of all resources."""
        for resource, items in list(self._objects.items()):
            for item in list(items.values()):
                yield resource, item

    def put(self, resource: Resource, item: JsonObject) -> JsonObject:
        """Store the object under its next resourceVersion and return it with that."""
        items = self._objects.setdefault(resource, {})
        before = items.get(key_of(item))
        self.version += 1
        stored = at_version(item, self.version)
        items[key_of(item)] = stored
        kind = EventKind.ADDED if before is None else EventKind.MODIFIED
        self._record(
            resource, Change(version=self.version, kind=kind, object=stored, before=before)
        )
        return stored

    def remove(self, resource: Resource, item: JsonObject) -> JsonObject:
        """Forget the object; returns it as watchers see it last."""
        before = self._objects[resource].pop(key_of(item))
        self.version += 1
        last = at_version(item, self.version)
        self._record(
            resource,
            Change(version=self.version, kind=EventKind.DELETED, object=last, before=before),
        )
        return last

    def compact(self) -> None:
        """Forget the history: watches that begin at a version before now are `Gone`."""
        self._history.clear()
        self._compacted_all_at = self.version

    def bookmark(self, resource: Resource, *, is_end_of_list: bool = False) -> JsonObject:
        """The object of a bookmark that says: so far you have seen everything."""
        metadata: JsonObject = {"resourceVersion": str(self.version), "creationTimestamp": None}
        if is_end_of_list:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}

    def subscribe(self, resource: Resource, since: int | None, matches: Predicate) -> Subscription:
        """A subscription to all that happened after `since`; end it with `unsubscribe`.

        From 0, it begins with everything that there is. From None, too, and a bookmark says then
        that this was all.
        """
        subscription = Subscription(matches)
        if not since:
            for item in self.select(resource, matches):
                subscription.offer(
                    Change(version=self.version, kind=EventKind.ADDED, object=item, before=None)
                )
            if since is None:
                end = self.bookmark(resource, is_end_of_list=True)
                subscription.pending.append((EventKind.BOOKMARK, end))
        else:
            oldest = max(self._compacted_at.get(resource, 0), self._compacted_all_at)
            if since < oldest:
                raise Gone(f"too old resource version: {since} ({oldest})")
            for change in self._history.get(resource, ()):
                if change.version > since:
                    subscription.offer(change)
        self._subscriptions.setdefault(resource, set()).add(subscription)
        return subscription

    def unsubscribe(self, resource: Resource, subscription: Subscription) -> None:
        """End the subscription."""
        self._subscriptions.get(resource, set()).discard(subscription)

    def _record(self, resource: Resource, change: Change) -> None:
        history = self._history.setdefault(resource, deque())
        history.append(change)
        if len(history) > self._history_length:
            self._compacted_at[resource] = history.popleft().version
        for subscription in self._subscriptions.get(resource, ()):
            subscription.offer(change)
