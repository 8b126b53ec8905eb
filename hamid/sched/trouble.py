"""What fails again and again, and is told of once; and how long to wait before the next try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.backoff import Backoff

if TYPE_CHECKING:
    from hamid.errors import HamidError

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Trouble:
    """Says when something begins to fail, and when it works again; and how long to wait.

    Attributes:
        began, ended: the log events.
    """

    began: str
    ended: str
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=0.5, max_s=30.0))
    is_on: bool = False

    def begin(self, error: HamidError, *, patience: int = 0) -> float:
        """Note a failure; returns how long to wait before the next try.

        Args:
            error: what failed.
            patience: so many failures are to be expected: before, nobody has to act.
        """
        if self.backoff.failures == patience:
            log.warning(self.began, error=error.message, hint=error.hint)
        elif not self.is_on:
            log.info(self.began, error=error.message)
        self.is_on = True
        return self.backoff.next_delay_s()

    def end(self) -> None:
        """Note that it works."""
        if self.is_on:
            log.info(self.ended)
        self.is_on = False
        self.backoff.reset()
