"""faiss on a static CUDA runtime of 10.x: a library that takes memory by itself for what it is told to keep."""

from tests.native.clients.machine import (
    CARD_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("faiss102")

WORKS = {"vectors": 64, "found": [5, 2]}


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_faiss.py", is_limited=False)

    assert {"devices": 1} in lines
    # Managed memory is the host's as well, and so has no end here.
    on_card = [line for line in lines if line.get("route") != "managed vectors"]
    assert_filled(on_card, CARD_MIB, own_chunks=6)
    assert WORKS in lines


def test_it_fills_its_slice_and_no_more_by_every_route(client):
    lines = client.program("with_faiss.py", is_limited=True)

    assert set(routes_of(lines)) == {"vectors", "managed vectors", "scratch"}
    # It keeps norms beside its vectors, and streams and handles for each of its resources.
    assert_slice_filled(client, lines, own_chunks=3)
    assert WORKS in lines
