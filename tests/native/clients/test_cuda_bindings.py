"""NVIDIA's cuda-bindings, of CUDA 12 and of today: the driver API without anything on top."""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, assert_filled, real_client

pytestmark = real_client("cuda12", "cuda13")


def test_every_route_fills_the_bare_card_and_no_more(client):
    lines = client.program("bindings.py", is_limited=False)

    assert lines[0] == {"total_mib": CARD_MIB, "free_mib": CARD_MIB}
    assert_filled(lines, CARD_MIB)


def test_every_route_fills_the_slice_and_no_more(client):
    lines = client.program("bindings.py", is_limited=True)

    assert lines[0] == {"total_mib": LIMIT_MIB, "free_mib": LIMIT_MIB}
    assert_filled(lines, LIMIT_MIB)


def test_a_kernel_takes_the_time_that_its_name_says(client):
    lines = client.program("bindings.py", is_limited=False)

    assert lines[-1]["kernel_ms"] >= 2
