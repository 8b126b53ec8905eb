"""Short paths for unix sockets, whose names may have 107 characters; a thread for files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hamid.aiokit.blocking import OneThread

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder with a short path."""
    path = Path(tempfile.mkdtemp(prefix="p-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def thread() -> Iterator[OneThread]:
    """The thread that files are written in."""
    thread = OneThread(name="files")
    yield thread
    thread.close()
