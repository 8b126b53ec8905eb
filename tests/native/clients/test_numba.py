"""numba-cuda: it compiles, loads and launches; memory by cuMemAlloc."""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, assert_filled, real_client

pytestmark = real_client("numba")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_numba.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"copied_back": True} in lines


def test_it_fills_the_slice_and_no_more(client):
    lines = client.program("with_numba.py", is_limited=True)

    assert_filled(lines, LIMIT_MIB)
    assert {"copied_back": True} in lines
