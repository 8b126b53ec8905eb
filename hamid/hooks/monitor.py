"""Reads what tenants report of their use: for metrics only, and never believed further.

The tenant writes the page, and one of an earlier release, to whom the directory is mounted, may have
put anything in its place. Therefore:

1. What is there is looked at before it is opened: to open a device node does things to the device.
2. No link is followed, no pipe waited on, no more read than a page has.
3. What a page says of a process that has died is left out; the kernel knows, by the lock that each
   process holds on the byte of its slot (see `abi.contract`).
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.ticker import every
from hamid.errors import HookError, PageCorrupt
from hamid.hooks.abi import contract
from hamid.hooks.abi.usage import (
    USAGE_HEADER_BYTES,
    USAGE_PAGE_BYTES,
    USAGE_PAGE_SIZES,
    decode_usage_page,
    used_part_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.aiokit.latest import Latest
    from hamid.hooks.abi.usage import UsageReport

log = structlog.get_logger(__name__)

_FLOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock on 64-bit Linux: type, whence, start, length, pid (0 for locks of open files)."""

_HINT: Final = "a process of the container tampered with it; its limits hold all the same"


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
        """Read all pages once; one that is not there or cannot be read reports nothing."""
        reports: dict[str, UsageReport] = {}
        unreadable = set()
        for grant_id, directory in dict(self.directories()).items():
            try:
                # One call each: the thread has more urgent work than this in between.
                report = await self.thread.call(read_usage, directory)
            except HookError as error:
                unreadable.add(grant_id)
                if grant_id not in self._complained:
                    log.warning("usage page unreadable", grant_id=grant_id, error=str(error))
                continue
            if report is not None:
                reports[grant_id] = report
        self._complained = unreadable
        self.usage.publish(reports)


def read_usage(directory: Path) -> UsageReport | None:
    """What the living processes of a container report; None if none has used a device yet.

    Blocks for as long as a local disk takes, whatever the tenant has put there.

    Raises:
        HookError: there is something else in the page's place.
    """
    path = directory / contract.USAGE_PAGE_NAME
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PageCorrupt(f"{path} cannot be opened: {error.strerror}", hint=_HINT) from error
    try:
        _require_page(path, os.fstat(place))
        with open(f"/proc/self/fd/{place}", "rb", buffering=0) as page:  # noqa: PTH123 - no path
            content = page.read(USAGE_HEADER_BYTES)
            content += page.read(max(0, used_part_bytes(content) - len(content)))
            report = decode_usage_page(content)
            living = [p for p in report.processes if _is_alive(page.fileno(), p.slot_index)]
    except OSError as error:
        raise PageCorrupt(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    finally:
        os.close(place)
    # What was left to processes that are gone is cleared by the next that joins.
    left = report.left_bytes_by_uuid if living else ()
    return replace(report, processes=tuple(living), left_bytes_by_uuid=left)


def _require_page(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PageCorrupt(f"{path} is no plain file ({stat.filemode(found.st_mode)})", hint=_HINT)
    if found.st_size not in (0, *USAGE_PAGE_SIZES):
        raise PageCorrupt(
            f"{path} has {found.st_size} bytes, not {USAGE_PAGE_BYTES}, or 0 when it is new",
            hint=_HINT,
        )


def _is_alive(page_fd: int, slot_index: int) -> bool:
    """Whether somebody holds the slot's byte: asks for a lock without taking it."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, contract.slot_lock_offset(slot_index), 1, 0)
    lock_type: int = _FLOCK.unpack(fcntl.fcntl(page_fd, fcntl.F_OFD_GETLK, wanted))[0]
    return lock_type != fcntl.F_UNLCK
