"""Asks the API server until it answers: a daemon that starts while it is away comes up all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.ticker import pause
from hamid.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = structlog.get_logger(__name__)

T = TypeVar("T")


async def until_answered(
    ask: Callable[[], Awaitable[T]], *, what: str, backoff: Backoff | None = None
) -> T:
    """The answer, however long it takes; says when it begins to take long, and when it is there.

    Args:
        ask: asks once, and raises `KubeError` where there is no answer.
        what: what is asked for, in words for the log.
        backoff: the delays between the tries.
    """
    backoff = backoff or Backoff(first_s=0.5, max_s=15.0)
    while True:
        try:
            answer = await ask()
        except KubeError as error:
            if not backoff.failures:
                log.warning("start delayed", what=what, error=error.message, hint=error.hint)
            await pause(backoff.next_delay_s())
        else:
            if backoff.failures:
                log.info("start goes on", what=what, failures=backoff.failures)
            return answer
