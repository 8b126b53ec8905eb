"""Keeps the picture of a simulation on the terminal; where there is none, prints it at each rest."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hamid.daemon.simulate.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hamid.daemon.simulate.cluster import SimulatedCluster

FRAME_S: Final = 0.15
"""The shortest time between two pictures."""
PAPER_LINES: Final = 200
"""The height of what is printed where there is no terminal."""


class _Console(Console):
    """Raises `BrokenPipeError` where nobody reads on.

    Rich would end the process there and then, with the simulation on its feet.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@dataclass(slots=True, kw_only=True)
class Screen:
    """The terminal, or what stands in for it."""

    console: Console
    live: Live

    @classmethod
    @contextmanager
    def opened(cls, console: Console | None = None) -> Iterator[Self]:
        """Take over the terminal, and stderr with it, for the length of the block."""
        console = console or _Console()
        live = Live(console=console, auto_refresh=False)
        if not console.is_terminal:
            yield cls(console=console, live=live)
            return
        with live:
            live.update(Text("starting …"), refresh=True)
            yield cls(console=console, live=live)

    def of(self, cluster: SimulatedCluster, *, notes: Sequence[str]) -> Painter:
        """The service that shows this cluster here."""
        return Painter(screen=self, cluster=cluster, notes=notes)

    def show_now(self, cluster: SimulatedCluster, *, notes: Sequence[str]) -> None:
        """Show the cluster as it is at this moment."""
        self.show(Picture.of(cluster, notes=notes))

    def show(self, picture: Picture) -> None:
        """Show this instead of what was shown."""
        if self.console.is_terminal:
            self.live.update(picture.render(self.console, height=self.console.height), refresh=True)
        else:
            self.console.print(picture.render(self.console, height=PAPER_LINES))


@dataclass(slots=True, kw_only=True)
class Painter:
    """Shows the newest picture whenever something changed; a service."""

    screen: Screen
    cluster: SimulatedCluster
    notes: Sequence[str]
    name: str = "screen"

    async def run(self) -> None:
        """Paint until cancelled."""
        before: Picture | None = None
        async for _ in self.cluster.view.progress.changes():
            if not self.screen.console.is_terminal:
                await self.cluster.wait_at_rest()
            picture = Picture.of(self.cluster, notes=self.notes)
            if picture != before:
                self.screen.show(picture)
                before = picture
            await asyncio.sleep(FRAME_S)
