"""Names and paths that the daemon and the library in the container both know.

The other half is `native/include/hamid_paths.h` and `hamid_pages.h`;
`tests/native/test_page_layout.py` compares. Paths are as the container sees them.

1. What limits a container is found by its path alone, in a directory that only the host writes.
   No environment variable has a say in it.
2. The limits directory is mounted, not the file: a file renamed into place on the host is then
   seen in the container at once.
3. A process that has no limits directory is outside: it is not limited and not counted. One that
   has it, but no page in it that can be trusted, gets no device memory.
4. Of the usage page the file is mounted, not the directory: beside it, a tenant could put any
   number of files on the host's disk.
"""

from __future__ import annotations

from typing import Final

ABI_VERSION: Final = 1
LIVE_VERSION: Final = 2
"""The live page's own; the library takes one of another version as none."""
USAGE_VERSION: Final = 4
"""The usage page's own. Versions 1 and 2 had a shorter header, without budgets, and version 3 no
shares; they are read, too."""

LIBRARY_PATH: Final = "/usr/local/hamid/libhamid.so"
"""The library, mounted read-only."""

PRELOAD_PATH: Final = "/etc/ld.so.preload"
"""Names the library; mounted read-only over the image's own, if it has one."""

PRELOAD_TEXT: Final = LIBRARY_PATH + "\n"
"""The whole of that file."""

LIMITS_DIR: Final = "/usr/local/hamid/limits"
"""Mounted read-only; holds the control page and the live page, and nothing else."""

CONTROL_PAGE_NAME: Final = "control.page"
CONTROL_PAGE_PATH: Final = f"{LIMITS_DIR}/{CONTROL_PAGE_NAME}"

LIVE_PAGE_NAME: Final = "live.page"
"""In the limits directory, too; written in place, by the daemon alone."""

LIVE_STALE_NS: Final = 2_000_000_000
"""A heartbeat older than this counts for nothing: then the control page's caps hold."""

USAGE_DIR: Final = "/usr/local/hamid/usage"
"""The container's own; containers of earlier releases had a directory of the host's mounted here."""

USAGE_PAGE_NAME: Final = "usage.page"
USAGE_PAGE_PATH: Final = f"{USAGE_DIR}/{USAGE_PAGE_NAME}"
"""Mounted read-write, one file of the host's per container."""

USAGE_PAGE_MODE: Final = 0o666
"""So that it does not matter whom the container runs as. An empty file is enough of a page: the
first process fills it in."""

ENV_LOG: Final = "HAMID_LOG"
"""How much the library says on stderr: off, error, warn (the default), info, debug."""

ENV_GRANT_ID: Final = "HAMID_GRANT_ID"
"""Names the grant that a container was given, for the daemon and people; the library ignores it."""

DEVICES_MAX: Final = 64
"""Devices of one container."""

SLOTS_MAX: Final = 1024
"""Processes of one container that use devices at the same time."""

SHARES_MAX: Final = 4096
"""Blocks that its processes open of each other, or of other containers."""

LOCK_SLOW_OFFSET: Final = 0x40000000
"""The byte of the usage page whose record lock is the slow lock."""


def slot_lock_offset(slot_index: int) -> int:
    """Return the byte whose record lock a slot's process holds for as long as it lives.

    The host can ask the kernel for it (F_OFD_GETLK), whatever pid namespace the process is in.
    """
    return LOCK_SLOW_OFFSET + 1 + slot_index
