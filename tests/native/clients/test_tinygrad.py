"""tinygrad: it looks the driver up by name, and keeps what it frees for itself."""

from tests.native.clients.machine import CARD_MIB, assert_filled, assert_slice_filled, real_client

pytestmark = real_client("tinygrad")


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_tinygrad.py", is_limited=False)

    assert_filled(lines, CARD_MIB)
    assert {"shape": [64, 64]} in lines


def test_it_fills_the_slice_to_the_last_byte_and_no_more(client):
    lines = client.program("with_tinygrad.py", is_limited=True)

    assert_slice_filled(client, lines)
    assert {"shape": [64, 64]} in lines
