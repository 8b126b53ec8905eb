"""What only the leader does: services that run through a term, and are made anew for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hamid.aiokit.services import running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hamid.aiokit.services import Service
    from hamid.sched.elector import LeaseElector


@dataclass(slots=True, kw_only=True)
class LeaderWork:
    """Runs services while this replica leads, and only then.

    Attributes:
        services: makes them anew for each term.
        ended: called when all of a term's services have stopped, for they keep up to date what
            others read.
    """

    elector: LeaseElector
    services: Callable[[], Sequence[Service]]
    ended: Callable[[], None] = lambda: None
    name: str = "leader-work"

    async def run(self) -> None:
        """Wait for a term, work through it, and again, until cancelled."""
        while True:
            async with self.elector.leadership():
                try:
                    async with running(*self.services()):
                        await self.elector.wait_lost()
                finally:
                    self.ended()
