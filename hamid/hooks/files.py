"""Files of ours on this node that others read: new content takes the old one's place in one step.

What is there is never written into. Whoever reads, or has it mapped, sees the old content or the
new, whole.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int, is_flushed: bool = False) -> None:
    """Put the content in the file's place, whatever the umask.

    Args:
        path: where it comes; what is beside it for a moment is hidden, and ends in `.tmp`.
        content: all of it.
        mode: who may read it.
        is_flushed: wait until content and name are on the disk.

    Raises:
        OSError: the disk does not take it; what was there is still there, and nothing beside it.
    """
    # Not a name that who watches the directory for *.json, as CDI runtimes do, would look at.
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            if is_flushed:
                file.flush()
                os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise
    if is_flushed:
        flush_names(path.parent)


def flush_names(directory: Path) -> None:
    """Wait until the names in the directory are on the disk: what is in a file says nothing of its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
