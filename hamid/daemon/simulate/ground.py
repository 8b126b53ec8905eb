"""What a simulation stands on: a short temporary directory, ports, the hook library."""

from __future__ import annotations

import shutil
import socket
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hamid.errors import SettingsError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK: Final = "127.0.0.1"
# A unix socket's path has room for 107 bytes; ours need some 60 below the directory.
_LONGEST_PARENT: Final = 40


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory for sockets and state, removed at the end.

    Raises:
        StateError: none can be made.
    """
    try:
        parent = tempfile.gettempdir()
        if len(parent) > _LONGEST_PARENT:
            parent = "/tmp"  # noqa: S108 - mkdtemp makes a directory that is ours alone
        directory = Path(tempfile.mkdtemp(prefix="hamid-", dir=parent))
    except OSError as error:
        raise StateError(
            f"no temporary directory can be made: {error}",
            hint="free or mend that disk, or set TMPDIR to a directory that can be written",
        ) from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def port_or_any(port: int) -> int:
    """The port if it is free on loopback, else 0, which lets the system choose."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return 0
    return port


def built_library(given: Path | None = None) -> Path:
    """The hook library: this one, or what `make native` leaves.

    Raises:
        SettingsError: there is no such file.
    """
    path = given or Path(__file__).parents[3] / "native" / "build" / "libhamid.so"
    if not path.is_file():
        raise SettingsError(
            f"the hook library is not built: there is no {path}",
            hint="run `make native` (it needs a C compiler), or name one with --library",
        )
    return path
