"""Short farewells while being cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable

log = structlog.get_logger(__name__)


async def last_words(act: Awaitable[object], *, what: str, timeout_s: float) -> None:
    """Await one short farewell during cancellation; give up, and say so, after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await act
    except Exception as error:  # noqa: BLE001 - a farewell must not hide why we leave
        log.warning("farewell failed", what=what, error=repr(error))
