"""Taichi: stream-ordered memory, and a library that is loaded with RTLD_DEEPBIND.

That flag would make Taichi's core find `dlsym` in libc before any preloaded library; ours takes the
flag out (entry_loader.c).
"""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, assert_filled, real_client

pytestmark = real_client("taichi")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_taichi.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"arch": "Arch.cuda"} in lines


def test_it_fills_its_slice_and_no_more(client):
    lines = client.program("with_taichi.py", is_limited=True)

    assert_filled(lines, LIMIT_MIB)
    assert {"arch": "Arch.cuda"} in lines
