"""Puts the library, and the file that preloads it, where containers can mount them.

1. A file that is there is never written into (see `files`): a process may have it mapped, and would
   crash.
2. The library's name holds its digest, so versions stand side by side. Old ones stay: the
   containers that were given one mount it again, by that name, at each restart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hamid.aiokit.blocking import OneThread
from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger(__name__)

ELF_MAGIC: Final = b"\x7fELF"
DIGEST_LENGTH: Final = 12
DIRECTORY_MODE: Final = 0o755
LIBRARY_MODE: Final = 0o755
PRELOAD_MODE: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledLibrary:
    """Where the host has what each container mounts (see `abi.contract` for where to)."""

    library_path: Path
    preload_path: Path


async def install_library(source: Path, *, host_dir: Path) -> InstalledLibrary:
    """Install the library into `host_dir/lib`, unless it is there already.

    Raises:
        HookError: there is no library at `source`, or the directory cannot be written.
    """
    thread = OneThread(name="hook-install")
    try:
        return await thread.call(_install, source, host_dir / "lib")
    finally:
        thread.close()


def _install(source: Path, directory: Path) -> InstalledLibrary:
    content = _read_library(source)
    digest = hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]
    installed = InstalledLibrary(
        library_path=directory / f"libhamid-{digest}.so",
        preload_path=directory / "ld.so.preload",
    )
    try:
        _make_directory(directory)
        is_new = _place(installed.library_path, content, mode=LIBRARY_MODE)
        _place(installed.preload_path, contract.PRELOAD_TEXT.encode(), mode=PRELOAD_MODE)
    except OSError as error:
        raise HookError(
            f"cannot install the library into {str(directory)!r}: {error}",
            hint="make the directory writable for hamid, or name another one by setting",
        ) from error
    if is_new:
        log.info("library installed", path=str(installed.library_path))
    return installed


def _read_library(source: Path) -> bytes:
    try:
        content = source.read_bytes()
    except OSError as error:
        raise HookError(
            f"cannot read the library {str(source)!r}: {error}",
            hint="build it (make native), or correct the setting that names it",
        ) from error
    if not content.startswith(ELF_MAGIC):
        raise HookError(
            f"{str(source)!r} is no shared library: it begins with {content[:4]!r}, "
            f"not {ELF_MAGIC!r}",
            hint="build it anew (make native), or correct the setting that names it",
        )
    return content


def _make_directory(directory: Path) -> None:
    missing = [d for d in (directory, *directory.parents) if not d.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        each.chmod(DIRECTORY_MODE)  # whatever the umask: tenants of any user read below it


def _place(path: Path, content: bytes, *, mode: int) -> bool:
    """Have the content at the path; returns whether it was not so before."""
    if _has(path, content, mode=mode):
        return False
    replace_file(path, content, mode=mode, is_flushed=True)
    return True


def _has(path: Path, content: bytes, *, mode: int) -> bool:
    try:
        return path.read_bytes() == content and path.stat().st_mode & 0o777 == mode
    except FileNotFoundError:
        return False
