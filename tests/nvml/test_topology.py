import pytest

from hamid.nvml.topology import Links, bus_id_of, pair_score


@pytest.mark.parametrize(
    ("level", "links", "score"),
    [
        pytest.param(0, 0, 60, id="one board"),
        pytest.param(10, 0, 50, id="one PCIe switch"),
        pytest.param(20, 0, 40, id="several PCIe switches"),
        pytest.param(30, 0, 30, id="one host bridge"),
        pytest.param(40, 0, 20, id="one CPU"),
        pytest.param(50, 0, 10, id="across CPUs"),
        pytest.param(50, 12, 1210, id="each NVLink counts a hundred"),
        pytest.param(50, 36, 1810, id="more than 18 NVLinks count as 18"),
        pytest.param(77, 1, 100, id="a level of a later driver counts nothing"),
    ],
)
def test_score_of_a_pair(level, links, score):
    assert pair_score(ancestor_level=level, links_there=links, links_back=links) == score


def test_cards_that_disagree_about_their_links_score_nothing():
    assert pair_score(ancestor_level=10, links_there=2, links_back=3) == 0


@pytest.mark.parametrize(
    ("is_peer_on_switch", "peer", "count"),
    [
        pytest.param(True, "0000:0b:00.0", 2, id="direct links are counted by peer"),
        pytest.param(True, "0000:12:00.0", 12, id="links to the switch lead to all on it"),
        pytest.param(False, "0000:12:00.0", 0, id="links to the switch lead to no other card"),
    ],
)
def test_links_to_a_peer(is_peer_on_switch, peer, count):
    links = Links(by_peer_bus_id={"0000:0b:00.0": 2}, switch_count=12)

    assert links.count_to(peer, is_peer_on_switch=is_peer_on_switch) == count


@pytest.mark.parametrize(
    ("text", "bus_id"),
    [
        pytest.param("00000000:3B:00.0", "0000:3b:00.0", id="the driver's eight digits"),
        pytest.param("0000:3b:00.0", "0000:3b:00.0", id="as sysfs has it"),
        pytest.param("00010000:01:00.0", "10000:01:00.0", id="a domain of five digits"),
    ],
)
def test_pci_addresses_are_those_of_sysfs(text, bus_id):
    assert bus_id_of(text) == bus_id
