"""Blocking calls, kept off the loop and in one line."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


class OneThread:
    """Runs blocking calls in one worker thread, one after another.

    A call that outlives its deadline goes on in the thread: it cannot be stopped. The next
    calls then wait behind it and run into their own deadlines, which is the honest answer.
    """

    def __init__(self, *, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function in the thread and return what it returns."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Take no more calls; does not wait for one that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
