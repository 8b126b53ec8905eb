from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.kube import lines
from hamid.kube.lines import LineSplitter, LineTooLong


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_do_not_depend_on_how_they_arrive(wanted: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in wanted)
    splitter, found, at = LineSplitter(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream)))
        found += list(splitter.feed(stream[at : at + size]))
        at += size

    assert found == [line for line in wanted if line.strip()]
    assert splitter.pending_bytes == 0


def test_an_unfinished_line_is_pending() -> None:
    splitter = LineSplitter()

    assert list(splitter.feed(b"one\nhal")) == [b"one"]
    assert splitter.pending_bytes == 3
    assert list(splitter.feed(b"f\n")) == [b"half"]
    assert splitter.pending_bytes == 0


def test_a_line_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    splitter = LineSplitter()
    list(splitter.feed(b"x" * 10))

    with pytest.raises(LineTooLong):
        list(splitter.feed(b"x"))
