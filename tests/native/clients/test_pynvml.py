"""pynvml: what a monitoring program is told, beside a tenant that holds memory, on a card that others use."""

import pytest

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, real_client

pytestmark = real_client("cuda13")

OTHER_PID, OTHER_MIB, OTHER_PERCENT = 4242, 100, 80
HELD_MIB = 60


@pytest.fixture
def told(client):
    """What NVML tells, of a card that another container uses."""
    client.have_neighbour(pid=OTHER_PID, memory_mib=OTHER_MIB, gpu_percent=OTHER_PERCENT)

    def ask(*, is_limited):
        (line,) = client.program("with_nvml.py", is_limited=is_limited)
        return line

    return ask


def test_it_is_told_the_whole_of_a_bare_card(told):
    line = told(is_limited=False)

    assert (line["total_mib"], line["total_mib_v2"]) == (CARD_MIB, CARD_MIB)
    assert (line["used_mib"], line["used_mib_v2"]) == (OTHER_MIB, OTHER_MIB)
    assert line["processes"] == [[OTHER_PID, OTHER_MIB]]
    assert line["utilisation"] == OTHER_PERCENT


def test_it_is_told_the_slice_and_who_holds_what_of_it(told, client):
    tenant = client.container.start(HELD_MIB)

    line = told(is_limited=True)

    assert (line["total_mib"], line["total_mib_v2"]) == (LIMIT_MIB, LIMIT_MIB)
    assert (line["used_mib"], line["used_mib_v2"]) == (HELD_MIB, HELD_MIB)
    assert line["processes"] == [[tenant.process.pid, HELD_MIB]]


@pytest.mark.parametrize(("core_percent", "utilisation"), [(0, OTHER_PERCENT), (30, 0)])
def test_under_a_cap_it_is_told_the_container_s_own_load(told, client, core_percent, utilisation):
    client.limit(core_percent=core_percent)
    client.container.start(HELD_MIB)

    assert told(is_limited=True)["utilisation"] == utilisation
