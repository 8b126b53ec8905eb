"""Cuts usage pages back to their size: else a tenant could fill the node's disk with its own.

The page is all of the host's disk that a container can write (see `grants`). It has a fixed size,
but whoever may write a file may make it longer, and no right of Linux forbids that for one file.
Nobody reads what is behind a page's end, so it is cut off. Pages are kept open: root in a container
can take the rights to its page away from us, which have none of root's powers.

What remains to a tenant is what it writes between two looks: it comes into memory first, and most
of it never to the disk. A file system of its own, with a size, would leave nothing; to mount one on
the host the daemon would need the power to mount anything there, which is worth more than this.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.farewell import last_words
from hamid.aiokit.ticker import every
from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.usage import USAGE_PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

log = structlog.get_logger(__name__)

_BLOCK_BYTES: Final = 512
"""What `st_blocks` counts, on every file system."""

_MOST_ON_DISK_BYTES: Final = 2 * USAGE_PAGE_BYTES
"""A page may take more blocks than it has bytes, by the file system's own accounts."""

_FAREWELL_S: Final = 2.0


@dataclass(slots=True, kw_only=True)
class UsageTrimmer:
    """Looks at the size of all usage pages at an interval; a service.

    Args:
        directories: the usage directory of each grant, asked anew at each look.
    """

    directories: Callable[[], Mapping[str, Path]]
    interval_s: float = 1.0
    name: str = "usage-trimmer"
    _open: dict[str, int] = field(default_factory=dict)
    _told: frozenset[str] = frozenset()
    # A look may outlive its await; a descriptor that is closed under it could be another's by then.
    _looking: threading.Lock = field(default_factory=threading.Lock)

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            async for _ in every(self.interval_s):
                await self.step()
        finally:
            await last_words(
                asyncio.to_thread(self._look, {}), what="close usage pages", timeout_s=_FAREWELL_S
            )

    async def step(self) -> None:
        """Look once; of each page that is too long, or out of reach, it is said once."""
        directories = dict(self.directories())
        # Not in a thread that others wait for: to cut off a large part takes a file system a while.
        cut, out_of_reach = await asyncio.to_thread(self._look, directories)
        for grant_id in sorted(cut.keys() - self._told):
            log.warning(
                "usage page cut",
                grant_id=grant_id,
                bytes=cut[grant_id],
                hint="a process of the container makes it longer; its limits hold all the same",
            )
        for grant_id in sorted(out_of_reach.keys() - self._told):
            log.warning(
                "usage page out of reach",
                grant_id=grant_id,
                error=out_of_reach[grant_id],
                hint="its container could fill this disk of the node; delete the pod",
            )
        self._told = (self._told | cut.keys() | out_of_reach.keys()) & directories.keys()

    def _look(self, directories: Mapping[str, Path]) -> tuple[dict[str, int], dict[str, str]]:
        """Cut what is too long; by grant, how many bytes it was, and why it cannot be seen to."""
        cut, out_of_reach = {}, {}
        with self._looking:
            for grant_id in self._open.keys() - directories.keys():
                os.close(self._open.pop(grant_id))
            for grant_id, directory in directories.items():
                try:
                    if grant_id not in self._open:
                        self._open[grant_id] = _opened(directory / USAGE_PAGE_NAME)
                    if bytes_before := trim(self._open[grant_id]):
                        cut[grant_id] = bytes_before
                except FileNotFoundError:
                    continue  # not made yet
                except OSError as error:
                    out_of_reach[grant_id] = error.strerror or str(error)
        return cut, out_of_reach


def _opened(page: Path) -> int:
    """A descriptor of the page. Nothing else is opened, should a container have put it there."""
    if not stat.S_ISREG(page.lstat().st_mode):
        raise OSError("it is no plain file")
    return os.open(page, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def trim(page: int) -> int:
    """Cut the open page back if it is too long; returns what it was, or 0 if it was right."""
    found = os.fstat(page)
    on_disk_bytes = found.st_blocks * _BLOCK_BYTES
    if found.st_size <= USAGE_PAGE_BYTES and on_disk_bytes <= _MOST_ON_DISK_BYTES:
        return 0
    size = min(found.st_size, USAGE_PAGE_BYTES)
    # Twice, since blocks may be reserved behind an end that is where it should be.
    os.ftruncate(page, size + 1)
    os.ftruncate(page, size)
    return max(found.st_size, on_disk_bytes)
