"""The newest value of something, for many readers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

T = TypeVar("T")


class Latest(Generic[T]):
    """A value that one owner publishes and many read, always the newest.

    Born with a value, so that no reader has to ask whether there is one. Readers that are slow
    miss the values in between: only the newest counts.
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._version = 0
        self._changed = asyncio.Event()

    def get(self) -> T:
        """The newest value."""
        return self._value

    @property
    def version(self) -> int:
        """Counts the published changes."""
        return self._version

    def publish(self, value: T) -> None:
        """Replace the value; equal values wake nobody."""
        if value == self._value:
            return
        self._value = value
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_change(self, *, since: int) -> int:
        """Wait until the version differs from `since`; returns the new version."""
        while self._version == since:
            await self._changed.wait()
        return self._version

    async def wait_for(self, predicate: Callable[[T], bool]) -> T:
        """Wait until the newest value satisfies the predicate, and return it."""
        while not predicate(self._value):
            await self._changed.wait()
        return self._value

    async def changes(self) -> AsyncIterator[T]:
        """Yield the value of now, and then each time it has changed, the newest."""
        seen = -1
        while True:
            seen = await self.wait_change(since=seen)
            yield self._value
