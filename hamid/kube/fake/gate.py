"""What every request passes first and last: faults, permission, the count."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hamid.kube.errors import ApiError, Forbidden, TooManyRequests, error_for_status
from hamid.kube.fake.faults import FaultKind, Faults
from hamid.kube.fake.values import Dropped
from hamid.kube.port import EventKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hamid.kube.fake.faults import Attempt, Fault, RequestLog
    from hamid.kube.fake.values import Target


@dataclass(slots=True, kw_only=True)
class Gate:
    """Lets requests through, or not.

    Attributes:
        authorize: who may do what; None lets everyone do everything.
    """

    requests: RequestLog
    faults: Faults = field(default_factory=Faults)
    authorize: Callable[[Attempt], bool] | None = None

    @asynccontextmanager
    async def request(self, target: Target, verb: str) -> AsyncIterator[None]:
        """The time that a request takes; a watch's is that of its beginning."""
        attempt = target.attempt(verb)
        code = 0
        try:
            faults = self.faults.take(attempt)
            for fault in faults:
                await _apply(fault)
            if self.authorize is not None and not self.authorize(attempt):
                raise Forbidden(
                    f'{attempt.resource} "{target.name or ""}" is forbidden: User "{target.caller}"'
                    f' cannot {verb} resource "{attempt.resource}"'
                )
            yield
            if any(fault.kind is FaultKind.LOSE_ANSWER for fault in faults):
                raise Dropped
            code = 201 if verb == "create" else 200
        except ApiError as error:
            code = error.code
            raise
        finally:
            self.requests.add(attempt, code)

    def event_fault(self, target: Target, kind: EventKind) -> FaultKind | None:
        """What goes wrong with the next event of a watch; bookmarks count as none."""
        if kind is not EventKind.BOOKMARK:
            for fault in self.faults.take(target.attempt("watch"), in_watch=True):
                return fault.kind
        return None


async def _apply(fault: Fault) -> None:
    match fault.kind:
        case FaultKind.DELAY:
            await asyncio.sleep(fault.delay_s)
        case FaultKind.SILENCE:
            await asyncio.Event().wait()
        case FaultKind.DROP:
            raise Dropped
        case FaultKind.STATUS:
            if fault.code == TooManyRequests.code:
                raise TooManyRequests(fault.message, retry_after_s=fault.retry_after_s or 0.0)
            retry_after = None if fault.retry_after_s is None else str(fault.retry_after_s)
            raise error_for_status(fault.code, {}, message=fault.message, retry_after=retry_after)
        case _:
            pass
