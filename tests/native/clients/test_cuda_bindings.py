"""NVIDIA's cuda-bindings, of CUDA 12 and of today: the driver API without anything on top."""

from tests.native.clients.machine import (
    CARD_MIB,
    LIMIT_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("cuda12", "cuda13")

NOT_OF_THE_CARD = ("managed", "external")
"""Managed memory is the host's as well, and what is imported its maker's: neither has an end on the bare card."""
ROUTES = {
    "alloc",
    "managed",
    "pitch",
    "async",
    "pool",
    "handle",
    "mapped",
    "array",
    "array3d",
    "mipmap",
    "external",
    "graph",
}


def test_every_route_fills_the_bare_card_and_no_more(client):
    lines = client.program("bindings.py", is_limited=False)

    assert lines[0] == {"total_mib": CARD_MIB, "free_mib": CARD_MIB}
    assert_filled([line for line in lines if line.get("route") not in NOT_OF_THE_CARD], CARD_MIB)


def test_every_route_fills_the_slice_to_the_last_byte_and_no_more(client):
    lines = client.program("bindings.py", is_limited=True)

    assert lines[0] == {"total_mib": LIMIT_MIB, "free_mib": LIMIT_MIB}
    assert set(routes_of(lines)) == ROUTES
    assert_slice_filled(client, lines)


def test_a_kernel_takes_the_time_that_its_name_says(client):
    lines = client.program("bindings.py", is_limited=False)

    assert lines[-1]["kernel_ms"] >= 2
