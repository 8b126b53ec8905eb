from __future__ import annotations

import socket
import tempfile

import pytest

from hamid.daemon.simulate import ground
from hamid.errors import SettingsError, StateError


def test_the_directory_is_gone_after_the_block():
    with ground.short_directory() as directory:
        (directory / "n0").mkdir()
        (directory / "n0" / "file").write_text("x")

    assert not directory.exists()


def test_the_directory_is_short_where_the_usual_place_is_not(monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    with ground.short_directory() as directory:
        assert len(str(directory)) < 40


def test_a_place_that_takes_no_directory_is_named(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")

    with (
        pytest.raises(StateError, match=r"no temporary directory .*/proc/none") as caught,
        ground.short_directory(),
    ):
        pass

    assert "TMPDIR" in caught.value.hint


def test_a_port_in_use_is_left_to_the_system():
    with socket.socket() as taken:
        taken.bind((ground.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert ground.port_or_any(port) == 0


def test_a_free_port_is_taken():
    with socket.socket() as probe:
        probe.bind((ground.LOOPBACK, 0))
        port = probe.getsockname()[1]

    assert ground.port_or_any(port) == port


def test_a_library_that_is_not_built_is_an_error_that_says_how_to_build_it(monkeypatch, tmp_path):
    monkeypatch.setattr(ground, "__file__", str(tmp_path / "a" / "b" / "c" / "ground.py"))

    with pytest.raises(SettingsError, match="not built") as caught:
        ground.built_library()

    assert "make native" in caught.value.hint
