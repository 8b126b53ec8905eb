import errno
import os
import stat

import pytest

from hamid.hooks.files import flush_names, replace_file


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_new_file_has_its_content_and_its_mode_whatever_the_umask(tmp_path, is_flushed):
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "page", b"new", mode=0o644, is_flushed=is_flushed)
    finally:
        os.umask(before)

    assert (tmp_path / "page").read_bytes() == b"new"
    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o644
    assert names(tmp_path) == ["page"]


def test_who_has_the_old_file_open_keeps_it_whole(tmp_path):
    page = tmp_path / "page"
    replace_file(page, b"old", mode=0o600)

    with page.open("rb") as old:
        replace_file(page, b"newer", mode=0o600)
        assert old.read() == b"old"

    assert page.read_bytes() == b"newer"


def test_what_the_disk_does_not_take_leaves_the_old_file_and_nothing_beside_it(
    tmp_path, monkeypatch
):
    page = tmp_path / "page"
    replace_file(page, b"old", mode=0o600)

    def fail(_descriptor):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        replace_file(page, b"new", mode=0o600, is_flushed=True)

    assert page.read_bytes() == b"old"
    assert names(tmp_path) == ["page"]


def test_content_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    """Else a power cut could leave the new name with nothing behind it."""
    seen = []
    flush = os.fsync

    def look(descriptor):
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), names(tmp_path)))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    replace_file(tmp_path / "page", b"new", mode=0o600, is_flushed=True)

    assert seen == [(False, [".page.tmp"]), (True, ["page"])]


def test_names_of_no_directory_cannot_be_flushed(tmp_path):
    with pytest.raises(FileNotFoundError):
        flush_names(tmp_path / "none")
