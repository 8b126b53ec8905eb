from __future__ import annotations

import pytest

from hamid.daemon.simulate.nodes import DEFAULT_NODES, load_nodes
from hamid.errors import SettingsError
from tests.daemon.simulate.manifests import write


def load(tmp_path, *documents):
    return load_nodes(write(tmp_path / "nodes.yaml", *documents))


def test_a_node_is_what_the_file_says(tmp_path):
    entry = {
        "name": "n-1",
        "cpu": 8,
        "memory": "32Gi",
        "labels": {"zone": "a"},
        "cards": [{"model": "T4", "count": 2, "numa": 1}, {"model": "A100-80GB"}],
    }

    (node,) = load(tmp_path, [entry])

    assert (node.name, node.cpu, node.memory, node.labels) == ("n-1", "8", "32Gi", {"zone": "a"})
    cards = [card.device for card in node.simulated_cards()]
    assert [(card.model, card.numa_node) for card in cards[:2]] == [("Tesla T4", 1)] * 2
    assert cards[2].model == "NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param(([{"name": "a"}, {"name": "b"}],), id="a list"),
        pytest.param(({"nodes": [{"name": "a"}, {"name": "b"}]},), id="an object with a list"),
        pytest.param(({"name": "a"}, {"name": "b"}), id="a document a node"),
    ],
)
def test_nodes_may_be_listed_in_three_ways(tmp_path, documents):
    assert [node.name for node in load(tmp_path, *documents)] == ["a", "b"]


def test_fields_may_be_written_in_capitals(tmp_path):
    (node,) = load(tmp_path, [{"name": "a", "CPU": 4, "NUMA": 1, "cards": [{"Model": "T4"}]}])

    assert (node.cpu, node.numa_count, node.cards[0].model) == ("4", 1, "T4")


def test_each_card_may_have_a_numa_node_of_its_own(tmp_path):
    (node,) = load(
        tmp_path, [{"name": "a", "cards": [{"model": "T4", "count": 2, "numa": [1, 0]}]}]
    )

    assert [card.device.numa_node for card in node.simulated_cards()] == [1, 0]


@pytest.mark.parametrize(
    ("numa", "nodes"),
    [
        pytest.param({}, [0, 0, 1, 1], id="two, if it does not say"),
        pytest.param({"numa": 4}, [0, 1, 2, 3], id="as many as it says"),
        pytest.param({"numa": 0}, [None] * 4, id="none"),
    ],
)
def test_other_cards_are_spread_over_the_numa_nodes(tmp_path, numa, nodes):
    (node,) = load(tmp_path, [{"name": "a", **numa, "cards": [{"model": "T4", "count": 4}]}])

    assert [card.device.numa_node for card in node.simulated_cards()] == nodes


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param("text", "nodes[0] is 'text', expected an object", id="text"),
        pytest.param({"nodes": []}, "has 0 nodes, not 1 to 200", id="no node"),
        pytest.param({"nodes": 3}, "nodes is 3, expected a list", id="a number of nodes"),
        pytest.param([{"cpu": 1}], "nodes[0].name is missing", id="no name"),
        pytest.param([{"name": "A b"}], "nodes[0].name is 'A b'", id="a name that is none"),
        pytest.param([{"name": "a..b"}], "nodes[0].name is 'a..b'", id="a name with a gap"),
        pytest.param([{"name": "a"}] * 2, "names the node 'a' twice", id="a name twice"),
        pytest.param(
            [{"name": "a", "gpus": 1}], "unknown field 'gpus'; known are name, cpu", id="unknown"
        ),
        pytest.param([{"name": "a", "CPU": 1, "cpu": 2}], "a field twice", id="in two spellings"),
        pytest.param([{"name": "a", "cpu": "much"}], "nodes[0].cpu is 'much'", id="no amount"),
        pytest.param([{"name": "a", "cpu": True}], "nodes[0].cpu is True", id="a truth"),
        pytest.param([{"name": "a", "cpu": -1}], "nodes[0].cpu is -1", id="less than nothing"),
        pytest.param(
            [{"name": "a", "memory": 256}], "expected memory in bytes, such as 256Gi", id="bytes"
        ),
        pytest.param([{"name": "a", "numa": "x"}], "nodes[0].numa is 'x'", id="no NUMA count"),
        pytest.param(
            [{"name": "a", "labels": {"x": 1}}], "nodes[0].labels[x] is 1", id="a label's number"
        ),
        pytest.param(
            [{"name": "a", "labels": {"a b": "x"}}],
            "nodes[0].labels: the key is 'a b', expected a label's",
            id="a label's key",
        ),
        pytest.param(
            [{"name": "a", "labels": {"Example.com/x": "x"}}],
            "nodes[0].labels: the key is 'Example.com/x'",
            id="a label's domain",
        ),
        pytest.param(
            [{"name": "a", "labels": {"x": "not this"}}],
            "nodes[0].labels[x] is 'not this', expected a label's value",
            id="a label's value",
        ),
        pytest.param(
            [{"name": "a", "numa": 2, "cards": [{"model": "T4"}, {"model": "T4", "numa": 2}]}],
            "nodes[0].cards[1].numa is 2, expected less than the node's 2",
            id="a NUMA node that is not there",
        ),
        pytest.param([{"name": "a", "cards": {"model": "T4"}}], "expected a list", id="one card"),
        pytest.param([{"name": "a", "cards": [{}]}], "cards[0].model is missing", id="no model"),
        pytest.param(
            [{"name": "a", "cards": [{"model": "RTX9000"}]}],
            "cards[0].model: there is no card model 'RTX9000'",
            id="a model that is not known",
        ),
        pytest.param(
            [{"name": "a", "cards": [{"model": "T4", "count": 1.5}]}],
            "cards[0].count is 1.5, expected a whole number from 0 to 32",
            id="half a card",
        ),
        pytest.param(
            [{"name": "a", "cards": [{"model": "T4", "count": 20}] * 2}],
            "'40 cards', expected at most 32",
            id="too many cards",
        ),
        pytest.param(
            [{"name": "a", "cards": [{"model": "T4", "count": 2, "numa": [0]}]}],
            "or a list of 2 of them",
            id="too few NUMA nodes",
        ),
    ],
)
def test_nonsense_is_an_error_that_names_the_place(tmp_path, document, said):

    with pytest.raises(SettingsError) as caught:
        load(tmp_path, document)

    assert said in caught.value.message
    assert "nodes.yaml" in caught.value.message


def test_the_default_nodes_are_three_to_five_of_mixed_cards():
    models = {card.model.product for node in DEFAULT_NODES for card in node.simulated_cards()}

    assert 3 <= len(DEFAULT_NODES) <= 5
    assert len(models) > 2
