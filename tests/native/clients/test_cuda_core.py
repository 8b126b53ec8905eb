"""cuda.core: it takes from pools, and keeps in them what it frees."""

from tests.native.clients.machine import (
    CARD_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("cuda13")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("core.py", is_limited=False)

    # Managed memory is the host's as well, and so has no end here.
    assert_filled([line for line in lines if line.get("route") != "managed pool"], CARD_MIB)
    assert {"name": "NVIDIA A100-SXM4-40GB"} in lines


def test_it_fills_the_slice_and_no_more_by_each_of_its_memory_resources(client):
    lines = client.program("core.py", is_limited=True)

    assert set(routes_of(lines)) == {"buffer", "own pool", "managed pool", "graph"}
    assert_slice_filled(client, lines)
    assert {"name": "NVIDIA A100-SXM4-40GB"} in lines
