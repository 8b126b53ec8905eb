"""cuda-bindings of CUDA 11: the runtime's calls, which they make of the driver's by themselves."""

from tests.native.clients.machine import (
    CARD_MIB,
    LIMIT_MIB,
    assert_filled,
    assert_slice_filled,
    real_client,
    routes_of,
)

pytestmark = real_client("cuda11")

ROUTES = {"alloc", "pitch", "async"}


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_runtime.py", is_limited=False)

    assert {"total_mib": CARD_MIB, "free_mib": CARD_MIB} in lines
    assert_filled(lines, CARD_MIB)


def test_it_fills_its_slice_by_every_route_and_is_refused_at_the_right_byte(client):
    lines = client.program("with_runtime.py", is_limited=True)

    assert {"total_mib": LIMIT_MIB, "free_mib": LIMIT_MIB} in lines
    assert set(routes_of(lines)) == ROUTES
    assert_slice_filled(client, lines)
