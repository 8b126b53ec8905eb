"""Lets calls wait until the cache has learned something."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class News:
    """Told of each change that somebody may wait for."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Let those who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, is_true: Callable[[], bool], *, timeout_s: float) -> None:
        """Wait until it holds, but no longer than this."""
        # The deadline is here and not in a port: what is waited for is our own news.
        try:
            async with asyncio.timeout(timeout_s):
                while not is_true():
                    await self._changed.wait()
        except TimeoutError:
            return
