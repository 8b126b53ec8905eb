"""Taichi: stream-ordered memory, and a library that is loaded with RTLD_DEEPBIND.

That flag makes Taichi's core find `dlsym` in libc before any preloaded library, so the limit does
not reach it (README of native/, "Not seen"). Once it does, the second test is to ask for LIMIT_MIB.
"""

from tests.native.clients.machine import CARD_MIB, assert_filled, real_client

pytestmark = real_client("taichi")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_taichi.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"arch": "Arch.cuda"} in lines


def test_it_runs_undisturbed_beside_the_library(client):
    lines = client.program("with_taichi.py", is_limited=True)

    assert {"arch": "Arch.cuda"} in lines
