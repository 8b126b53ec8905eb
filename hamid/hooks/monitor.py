"""Reads what tenants report of their use: for metrics only, and never believed further."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.aiokit.ticker import every
from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import USAGE_HEADER_BYTES, decode_usage_page, used_part_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.aiokit.latest import Latest
    from hamid.hooks.abi.pages import UsageReport

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class UsageMonitor:
    """Reads the usage pages at an interval and publishes them by grant; a service.

    Args:
        directories: the usage directory of each grant, asked anew at each look.
    """

    directories: Callable[[], Mapping[str, Path]]
    usage: Latest[Mapping[str, UsageReport]]
    thread: OneThread
    interval_s: float = 5.0
    name: str = "hook-monitor"
    _complained: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Read until cancelled."""
        async for _ in every(self.interval_s):
            await self.step()

    async def step(self) -> None:
        """Read all pages once; one that cannot be read reports nothing."""
        directories = dict(self.directories())
        contents = await self.thread.call(_read_all, directories)
        reports = {}
        for grant_id, content in contents.items():
            try:
                reports[grant_id] = decode_usage_page(content)
            except HookError as error:
                if grant_id not in self._complained:
                    log.warning("usage page unreadable", grant_id=grant_id, error=str(error))
                self._complained.add(grant_id)
        self._complained &= directories.keys()
        self.usage.publish(reports)


def _read_all(directories: Mapping[str, Path]) -> dict[str, bytes]:
    contents = {}
    for grant_id, directory in directories.items():
        try:
            contents[grant_id] = _read(directory / contract.USAGE_PAGE_NAME)
        except OSError:
            # No process has used a card yet, or the tenant put something else in its place.
            continue
    return contents


def _read(path: Path) -> bytes:
    # The tenant owns this directory: follow no link of theirs, wait on no pipe of theirs, and
    # read no more than a page has.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a plain file")
        header = file.read(USAGE_HEADER_BYTES)
        return header + file.read(used_part_bytes(header) - len(header))
