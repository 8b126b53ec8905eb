import hashlib
import os
import threading

import pytest

from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.install import install_library

LIBRARY = b"\x7fELF and so on"
DIGEST = hashlib.sha256(LIBRARY).hexdigest()[:12]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "built" / "libhamid.so"
    path.parent.mkdir()
    path.write_bytes(LIBRARY)
    return path


@pytest.fixture
def host_dir(tmp_path):
    return tmp_path / "host" / "hamid"


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def identities(installed):
    """Inode and time of the last write: the same only for files that nobody touched."""
    stats = [installed.library_path.stat(), installed.preload_path.stat()]
    return [(stat.st_ino, stat.st_mtime_ns) for stat in stats]


async def test_the_library_and_the_file_that_names_it_are_installed(source, host_dir):
    installed = await install_library(source, host_dir=host_dir)

    assert installed.library_path == host_dir / "lib" / f"libhamid-{DIGEST}.so"
    assert installed.library_path.read_bytes() == LIBRARY
    assert installed.preload_path.read_text() == f"{contract.LIBRARY_PATH}\n"
    assert names_in(host_dir / "lib") == ["ld.so.preload", f"libhamid-{DIGEST}.so"]


async def test_everybody_may_read_it_whatever_the_umask(source, host_dir):
    before = os.umask(0o077)
    try:
        installed = await install_library(source, host_dir=host_dir)
    finally:
        os.umask(before)

    modes = [
        path.stat().st_mode & 0o777
        for path in (
            host_dir.parent,
            host_dir,
            host_dir / "lib",
            installed.library_path,
            installed.preload_path,
        )
    ]
    assert modes == [0o755, 0o755, 0o755, 0o755, 0o644]


async def test_installing_again_touches_nothing(source, host_dir):
    installed = await install_library(source, host_dir=host_dir)
    before = identities(installed)

    again = await install_library(source, host_dir=host_dir)

    assert again == installed
    assert identities(installed) == before


async def test_a_new_version_stands_beside_the_old_one(source, host_dir):
    old = await install_library(source, host_dir=host_dir)
    source.write_bytes(LIBRARY + b" more")

    new = await install_library(source, host_dir=host_dir)

    assert new.library_path != old.library_path
    assert old.library_path.read_bytes() == LIBRARY


async def test_a_file_in_use_is_replaced_and_not_written_into(source, host_dir):
    installed = await install_library(source, host_dir=host_dir)
    installed.library_path.write_bytes(b"\x7fELF damaged")
    with installed.library_path.open("rb") as in_use:
        again = await install_library(source, host_dir=host_dir)

        assert in_use.read() == b"\x7fELF damaged"
    assert again.library_path.read_bytes() == LIBRARY


async def test_a_wrong_preload_file_is_put_right(source, host_dir):
    installed = await install_library(source, host_dir=host_dir)
    installed.preload_path.write_text("/elsewhere.so\n")

    await install_library(source, host_dir=host_dir)

    assert installed.preload_path.read_text() == contract.PRELOAD_TEXT


async def test_a_library_that_is_not_there_is_named(tmp_path, host_dir):
    with pytest.raises(HookError, match=r"absent\.so") as caught:
        await install_library(tmp_path / "absent.so", host_dir=host_dir)

    assert "make native" in caught.value.hint
    assert not host_dir.exists()


async def test_a_file_that_is_no_library_is_refused(source, host_dir):
    source.write_text("#!/bin/sh\n")

    with pytest.raises(HookError, match="no shared library"):
        await install_library(source, host_dir=host_dir)

    assert not host_dir.exists()


async def test_a_directory_that_cannot_be_made_says_so(source, tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(HookError, match="cannot install") as caught:
        await install_library(source, host_dir=tmp_path / "file" / "hamid")

    assert "writable" in caught.value.hint


async def test_no_thread_is_left_behind(source, host_dir):
    await install_library(source, host_dir=host_dir)

    for thread in threading.enumerate():
        if thread.name.startswith("hook-install"):
            thread.join(timeout=10)
            assert not thread.is_alive()
