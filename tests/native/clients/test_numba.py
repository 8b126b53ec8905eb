"""numba-cuda: it compiles, loads and launches; memory by cuMemAlloc and cuMemAllocManaged."""

from tests.native.clients.machine import (
    CARD_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("numba")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_numba.py", is_limited=False)

    # Managed memory is the host's as well, and so has no end here.
    assert_filled([line for line in lines if line.get("route") != "managed array"], CARD_MIB)
    assert {"copied_back": True} in lines


def test_it_fills_the_slice_to_the_last_byte_and_no_more(client):
    lines = client.program("with_numba.py", is_limited=True)

    assert set(routes_of(lines)) == {"array", "managed array"}
    assert_slice_filled(client, lines)
    assert {"copied_back": True} in lines
