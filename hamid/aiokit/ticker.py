"""Steady ticks without drift or pile-up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def every(interval_s: float) -> AsyncIterator[None]:
    """Yield at once and then at each multiple of the interval, by the loop's clock.

    A body that overruns skips the ticks it missed: it never runs twice in a row to catch up.
    """
    loop = asyncio.get_running_loop()
    next_at = loop.time()
    while True:
        yield
        now = loop.time()
        next_at += interval_s
        if next_at < now:
            next_at = now + (interval_s - (now - next_at) % interval_s)
        await asyncio.sleep(next_at - now)


async def pause(delay_s: float) -> None:
    """Wait once, before trying again what failed."""
    await asyncio.sleep(delay_s)
