"""PyTorch 1.12.1 for CUDA 10.2: framework, runtime and driver, one on the other."""

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

pytestmark = [*real_client("torch102"), only_in_the_long_run()]

WORKS = {"copied_back": True, "shape": [64, 64], "took_time": True, "allocated_mib": 0}


def test_it_fills_the_bare_card_and_no_more(client):
    lines = client.program("with_torch.py", is_limited=False)

    assert {"available": True, "total_mib": CARD_MIB} in lines
    assert_filled(lines, CARD_MIB)
    assert WORKS in lines


def test_it_fills_the_slice_and_no_more(client):
    lines = client.program("with_torch.py", is_limited=True)

    assert {"available": True, "total_mib": LIMIT_MIB} in lines
    assert_slice_filled(client, lines)
    assert routes_of(lines)["tensor"]["told"]["allocated_bytes"] == LOOK_AT_MIB * MIB
    assert WORKS in lines
    assert any("CUDA out of memory" in (line.get("refusal") or "") for line in lines)
