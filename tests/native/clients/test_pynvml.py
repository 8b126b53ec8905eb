"""pynvml: what a monitoring program is told."""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, real_client

pytestmark = real_client("cuda13")


def test_it_is_told_the_whole_of_a_bare_card(client):
    (told,) = client.program("with_nvml.py", is_limited=False)

    assert (told["total_mib"], told["total_mib_v2"]) == (CARD_MIB, CARD_MIB)


def test_it_is_told_the_slice(client):
    (told,) = client.program("with_nvml.py", is_limited=True)

    assert (told["total_mib"], told["total_mib_v2"]) == (LIMIT_MIB, LIMIT_MIB)
