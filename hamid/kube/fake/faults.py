"""What can be made to go wrong, and the record of what was asked.

A fault is taken by the first request that it fits, as often as it says. Which request that is
depends on nothing but the order of the requests.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

RECENT_LENGTH: Final = 10_000


class FaultKind(Enum):
    """What goes wrong."""

    DROP = auto()
    """The connection is cut before anything is done."""
    LOSE_ANSWER = auto()
    """The connection is cut after everything is done."""
    DELAY = auto()
    """The request waits `delay_s` first."""
    SILENCE = auto()
    """The request is never answered."""
    STATUS = auto()
    """The answer is `code`, with `retry_after_s` if given, and nothing is done."""
    CUT_WATCH = auto()
    """The watch is cut in the middle of the next event."""
    END_WATCH = auto()
    """The watch ends in order, instead of giving the next event."""
    LOSE_EVENT = auto()
    """The watch leaves out the next event. No real server does; a test may want to see it."""
    SILENCE_WATCH = auto()
    """The watch says nothing more, not even bookmarks, and does not end."""


WATCH_KINDS: Final = frozenset(
    {FaultKind.CUT_WATCH, FaultKind.END_WATCH, FaultKind.LOSE_EVENT, FaultKind.SILENCE_WATCH}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A request, as far as faults and counts are concerned.

    Attributes:
        verb: get, list, watch, create, update, patch, delete.
        resource: `pods`, `pods/binding`, `leases.coordination.k8s.io`.
        caller: the identity of the token or certificate, else the User-Agent.
    """

    verb: str
    resource: str
    namespace: str | None = None
    name: str | None = None
    caller: str = ""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One thing to go wrong; None fits everything.

    Attributes:
        times: how many requests it takes; None for all.
        after: how many fitting requests pass before.
    """

    kind: FaultKind
    verb: str | None = None
    resource: str | None = None
    name: str | None = None
    caller: str | None = None
    times: int | None = 1
    after: int = 0
    code: int = 500
    message: str = "told to fail"
    delay_s: float = 0.0
    retry_after_s: float | None = None

    def fits(self, attempt: Attempt) -> bool:
        """Whether the request is one of those meant."""
        pairs = (
            (self.verb, attempt.verb),
            (self.resource, attempt.resource),
            (self.name, attempt.name),
            (self.caller, attempt.caller),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


@dataclass(slots=True)
class Faults:
    """The faults that wait for their requests, the oldest first."""

    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        """Let this go wrong, from the next fitting request on."""
        self.waiting.append(fault)
        return fault

    def clear(self) -> None:
        """Let nothing more go wrong."""
        self.waiting.clear()

    def take(self, attempt: Attempt, *, in_watch: bool = False) -> list[Fault]:
        """What goes wrong with this request, or with this event of a watch."""
        taken: list[Fault] = []
        for fault in tuple(self.waiting):
            if (fault.kind in WATCH_KINDS) is not in_watch or not fault.fits(attempt):
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
            taken.append(fault)
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request and the code of its answer; 0 if it got none."""

    attempt: Attempt
    code: int
    at_s: float


class RequestLog:
    """Counts all requests, and keeps the latest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: Counter[tuple[str, str, str, int]] = Counter()
        self.recent: deque[Answered] = deque(maxlen=RECENT_LENGTH)

    def add(self, attempt: Attempt, code: int) -> None:
        """Count a request."""
        self._counts[attempt.verb, attempt.resource, attempt.caller, code] += 1
        self.recent.append(Answered(attempt=attempt, code=code, at_s=self._clock()))

    def count(
        self,
        *,
        verb: str | None = None,
        resource: str | None = None,
        caller: str | None = None,
        code: int | None = None,
    ) -> int:
        """How many requests were of this kind; None counts all. A watch counts when it begins."""
        wanted = (verb, resource, caller, code)
        return sum(
            number
            for found, number in self._counts.items()
            if all(w is None or w == f for w, f in zip(wanted, found, strict=True))
        )

    def by(self) -> dict[tuple[str, str], int]:
        """The counts by verb and resource, most frequent first."""
        totals: Counter[tuple[str, str]] = Counter()
        for (verb, resource, _, _), number in self._counts.items():
            totals[verb, resource] += number
        return dict(totals.most_common())

    def clear(self) -> None:
        """Begin counting anew."""
        self._counts.clear()
        self.recent.clear()
