"""Taichi: stream-ordered memory, and a library that is loaded with RTLD_DEEPBIND.

That flag would make Taichi's core find `dlsym` in libc before any preloaded library; ours takes the
flag out (entry_loader.c).
"""

from tests.native.clients.machine import (
    CARD_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("taichi")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_taichi.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"arch": "Arch.cuda"} in lines


def test_it_fills_its_slice_and_no_more(client):
    lines = client.program("with_taichi.py", is_limited=True)

    assert set(routes_of(lines)) == {"ndarray", "field"}
    assert_slice_filled(client, lines)
    assert {"arch": "Arch.cuda"} in lines
