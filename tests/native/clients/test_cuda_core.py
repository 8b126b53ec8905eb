"""cuda.core: it takes from the device's memory pool, and keeps what it frees in it."""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, assert_filled, real_client

pytestmark = real_client("cuda13")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("core.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"name": "NVIDIA A100-SXM4-40GB"} in lines


def test_it_fills_the_slice_and_no_more(client):
    lines = client.program("core.py", is_limited=True)

    assert_filled(lines, LIMIT_MIB)
    assert {"name": "NVIDIA A100-SXM4-40GB"} in lines
