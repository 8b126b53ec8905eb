"""Content for a library that takes paths only; on Linux it is written to no file system.

So it works where no disk can be written, and a private key leaves no trace on one.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path that leads this process to the content for as long as the block lasts."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
