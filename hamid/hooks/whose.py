"""Which container a process of the host belongs to: the one whose usage page it has mapped.

A container sees no other's page, so nobody can pass for another. It needs the host's processes in
sight (`hostPID`); where they are not, nobody is found.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hamid.hooks.abi import contract

if TYPE_CHECKING:
    from collections.abc import Collection

KEPT_NS: Final = 10_000_000_000
"""A pid may be given again; and who has joined no page yet may do so."""

PageKey = tuple[int, int, int]
"""Major and minor number of the file system's device, and inode."""


def page_key(found: os.stat_result) -> PageKey:
    """The key of an open page."""
    return (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)


@dataclass(slots=True, kw_only=True)
class MappedPages:
    """Finds the usage page of processes, and remembers what they map for a while."""

    proc: Path = Path("/proc")
    _known: dict[int, tuple[int, tuple[PageKey, ...]]] = field(default_factory=dict)

    def of(self, pid: int, *, among: Collection[PageKey], now_ns: int) -> PageKey | None:
        """The one of these pages that the process has mapped, if any.

        It may map others of that name, which it made itself: then it would pass for nobody's.
        """
        known = self._known.get(pid)
        if known is None or now_ns - known[0] > KEPT_NS:
            known = (now_ns, self._look(pid))
            self._known = {p: k for p, k in self._known.items() if now_ns - k[0] <= KEPT_NS}
            self._known[pid] = known
        return next((page for page in known[1] if page in among), None)

    def _look(self, pid: int) -> tuple[PageKey, ...]:
        try:
            lines = (self.proc / str(pid) / "maps").read_text(errors="replace").splitlines()
        except OSError:
            return ()
        named = [line for line in lines if line.endswith(f"/{contract.USAGE_PAGE_NAME}")]
        return tuple(dict.fromkeys(map(_key_of_line, named)))


def _key_of_line(line: str) -> PageKey:
    fields = line.split(maxsplit=5)
    major, _, minor = fields[3].partition(":")
    return (int(major, 16), int(minor, 16), int(fields[4]))
