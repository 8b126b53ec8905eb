"""Short paths for unix sockets, whose names may have 107 characters."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder with a short path."""
    path = Path(tempfile.mkdtemp(prefix="p-", dir="/tmp"))
    yield path
    shutil.rmtree(path)
