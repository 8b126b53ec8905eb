import re

import pytest

from hamid.errors import SettingsError
from hamid.nvml.profiles import (
    ALIASES,
    MODELS,
    CardGroup,
    card_model,
    make_profile,
    simulated_cards,
)


@pytest.mark.parametrize(
    ("name", "product"),
    [
        pytest.param("T4", "Tesla T4", id="short name"),
        pytest.param("tesla t4", "Tesla T4", id="product name in lower case"),
        pytest.param("NVIDIA-Tesla T4", "Tesla T4", id="as HAMi registers it"),
        pytest.param("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", id="product name"),
        pytest.param("A100-80GB", "NVIDIA A100-SXM4-80GB", id="alias"),
        pytest.param("H100", "NVIDIA H100 80GB HBM3", id="alias of a family"),
    ],
)
def test_models_are_found_by_their_usual_names(name, product):
    assert card_model(name).product == product


def test_an_unknown_model_is_refused_with_the_names_there_are():
    with pytest.raises(SettingsError, match="'T5'") as caught:
        card_model("T5")

    assert "L40S" in caught.value.hint


def test_every_alias_names_a_model():
    assert set(ALIASES.values()) <= set(MODELS)


def test_uuids_are_the_drivers_form_and_the_same_each_time():
    first = make_profile([("T4", 2), CardGroup("A100", 1, mig=("1g.5gb",))], node_name="n")
    again = make_profile([("T4", 2), CardGroup("A100", 1, mig=("1g.5gb",))], node_name="n")
    other = make_profile([("T4", 2)], node_name="m")

    form = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    uuids = re.findall(r"^uuid=(.*)$", first, re.MULTILINE)
    assert first == again
    assert len(uuids) == 3
    assert all(re.fullmatch(form, uuid) for uuid in uuids)
    assert not set(uuids) & set(re.findall(r"^uuid=(.*)$", other, re.MULTILINE))


@pytest.mark.parametrize(
    ("card_count", "numa_nodes", "nodes"),
    [
        pytest.param(4, 2, [0, 0, 1, 1], id="in halves"),
        pytest.param(3, 2, [0, 0, 1], id="the first node has the odd one"),
        pytest.param(1, 2, [0], id="a single card is on the first"),
        pytest.param(2, 0, [None, None], id="no NUMA"),
    ],
)
def test_cards_are_spread_over_numa_nodes(card_count, numa_nodes, nodes):
    cards = simulated_cards([("T4", card_count)], node_name="n", numa_nodes=numa_nodes)

    assert [card.device.numa_node for card in cards] == nodes


def test_cards_of_a_board_are_linked_in_fours():
    cards = simulated_cards([("V100-SXM2-16GB", 8)], node_name="n")
    uuids = [card.device.device_uuid for card in cards]

    assert cards[5].links == {uuids[4]: 2, uuids[6]: 2, uuids[7]: 2}


def test_cards_without_nvlink_and_single_cards_have_no_links():
    cards = simulated_cards([("T4", 2), ("H100", 1)], node_name="n")

    assert [dict(card.links) for card in cards] == [{}, {}, {}]


def test_a_mig_profile_that_the_model_lacks_is_refused():
    with pytest.raises(SettingsError, match=r"'1g\.5gb'") as caught:
        simulated_cards([CardGroup("H100", 1, mig=("1g.5gb",))], node_name="n")

    assert "1g.10gb" in caught.value.hint


def test_mig_on_a_model_without_it_is_refused():
    with pytest.raises(SettingsError) as caught:
        simulated_cards([CardGroup("T4", 1, mig=("1g.5gb",))], node_name="n")

    assert "no MIG" in caught.value.hint


@pytest.mark.parametrize("card_count", [-1, 33])
def test_a_card_count_that_no_simulated_node_has_is_refused(card_count):
    with pytest.raises(SettingsError, match="'n'"):
        simulated_cards([("T4", card_count)], node_name="n")


def test_a_node_without_cards_has_a_profile_too():
    assert "uuid=" not in make_profile([], node_name="n")
