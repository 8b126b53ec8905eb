from __future__ import annotations

import io
import sys
from collections import Counter

import pytest
from rich.console import Console

from hamid.daemon.simulate.picture import Picture
from hamid.daemon.simulate.screen import Screen


class Unread(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, _text):
        raise BrokenPipeError


EMPTY = Picture(cards=(), waiting=(), counts=Counter(), bare_nodes=("bare",), head=("head",))


def test_on_a_terminal_a_picture_replaces_the_one_before(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)

    with Screen.opened(console) as screen:
        screen.show(EMPTY)
        screen.show(EMPTY)

    shown = console.file.getvalue()
    assert "starting …" in shown
    assert "\x1b[1A" in shown  # the cursor goes up


def test_on_a_terminal_what_is_logged_goes_above_the_picture():
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    before = sys.stderr

    with Screen.opened(console):
        during = sys.stderr

    assert during is not before
    assert sys.stderr is before


def test_elsewhere_pictures_are_printed_one_after_another():
    console = Console(file=io.StringIO(), width=80)

    with Screen.opened(console) as screen:
        screen.show(EMPTY)
        screen.show(EMPTY)

    assert console.file.getvalue().count("no cards") == 2
    assert "\x1b" not in console.file.getvalue()


def test_who_reads_no_further_ends_the_simulation_in_good_order(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Unread())

    with pytest.raises(BrokenPipeError), Screen.opened() as screen:  # and not SystemExit
        screen.show(EMPTY)
