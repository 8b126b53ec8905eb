from __future__ import annotations

import pytest

from hamid.daemon.yaml_text import load_yaml
from hamid.errors import SettingsError


def load(tmp_path, text):
    path = tmp_path / "given.yaml"
    path.write_text("data: " + text)
    (found,) = load_yaml(path)
    return found["data"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{day: 2024-01-01}", {"day": "2024-01-01"}, id="a date is a text"),
        pytest.param("[22:22, 1:30.5]", ["22:22", "1:30.5"], id="so is a number of base 60"),
        pytest.param("[16, -3, 0x10, 010, 1_000]", [16, -3, 16, 8, 1000], id="whole numbers"),
        pytest.param("[1.5, 1e3, .5]", [1.5, 1000.0, 0.5], id="fractions"),
        pytest.param("[16Gi, 100m, 1.2.3]", ["16Gi", "100m", "1.2.3"], id="quantities are texts"),
        pytest.param("{1: a, true: b}", {"1": "a", "true": "b"}, id="keys are texts"),
    ],
)
def test_yaml_means_what_it_means_to_kubectl(tmp_path, text, value):
    assert load(tmp_path, text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("!!set {a, b}", "line 1: could not determine a constructor", id="a set"),
        pytest.param("!!binary aGk=", "line 1: could not determine", id="bytes"),
        pytest.param("99999999999999999999", "has more than 64 bits", id="a number too large"),
        pytest.param("9" * 5000, "has more than 64 bits", id="a number of thousands of digits"),
        pytest.param(".inf", ".inf is no number that JSON has", id="infinity"),
        pytest.param("{1: a, '1': b}", "the key '1' is there twice", id="a key told in two ways"),
        pytest.param("{[1]: a}", "line 1: a key must be a text", id="a list for a key"),
    ],
)
def test_what_no_json_can_say_is_an_error(tmp_path, text, said):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)

    assert said in caught.value.message


def test_empty_documents_are_left_out(tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text("---\n---\na: 1\n---\n")

    assert load_yaml(path) == [{"a": 1}]
