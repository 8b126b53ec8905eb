"""CuPy on the CUDA runtime 10.2: its memory pool and every kind of memory that its runtime gives."""

from tests.native.clients.machine import (
    CARD_MIB,
    LIMIT_MIB,
    LOOK_AT_MIB,
    assert_filled,
    assert_slice_filled,
    only_in_the_long_run,
    real_client,
    routes_of,
)
from tests.native.container import MIB

pytestmark = [*real_client("cupy102"), only_in_the_long_run()]

WORKS = {"copied_back": True, "shape": [1000], "used_mib": 0}


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_cupy.py", is_limited=False)

    assert {"total_mib": CARD_MIB} in lines
    # Managed memory is the host's as well, and so has no end here.
    assert_filled([line for line in lines if line.get("route") != "managed"], CARD_MIB)
    assert WORKS in lines


def test_it_fills_its_slice_by_every_route_and_is_refused_at_the_right_byte(client):
    lines = client.program("with_cupy.py", is_limited=True)

    assert {"total_mib": LIMIT_MIB} in lines
    assert {"free_less_largest": 0} in lines
    assert set(routes_of(lines)) == {"pooled array", "malloc", "cuda array", "managed"}
    assert_slice_filled(client, lines)
    assert routes_of(lines)["pooled array"]["told"]["pooled_bytes"] == LOOK_AT_MIB * MIB
    assert WORKS in lines
