from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.node_annotation import (
    decode_cordon,
    decode_link_scores,
    decode_node_inventory,
    encode_link_scores,
    encode_node_inventory,
)
from hamid.errors import AnnotationError
from hamid.model.device import DeviceMode
from tests.builders import make_device, make_inventory
from tests.codec.golden_files import golden_names, golden_text
from tests.codec.strategies import inventories, names

FORMATS = [
    n for n in golden_names("node", "*.txt") if n.startswith(("csv", "json")) and "." not in n
]


def decode(text):
    return decode_node_inventory(text, node_name="node-1")


def test_golden_files_cover_all_five_formats():
    assert FORMATS == ["csv-5-fields", "csv-6-fields", "csv-7-fields", "csv-9-fields", "json-hami"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_of_the_field_is_read_and_written_as_current_json(name):
    inventory = decode(golden_text(f"node/{name}.txt"))

    assert encode_node_inventory(inventory) == golden_text(f"node/{name}.written.txt")


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_and_written_again_with_the_same_bytes(name):
    text = golden_text(f"node/{name}.written.txt")

    assert encode_node_inventory(decode(text)) == text


def test_a_device_is_read_with_all_that_its_node_says():
    (device, _) = decode(golden_text("node/csv-9-fields.txt")).devices

    assert device == make_device(
        device_uuid="GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec",
        device_index=0,
        model="NVIDIA A100-SXM4-40GB",
        memory_mib=40960,
        core_percent=100,
        slot_count=7,
        numa_node=1,
        mode=DeviceMode.MIG,
        is_healthy=True,
    )


def test_what_old_formats_lack_is_filled_in():
    device = decode(golden_text("node/csv-5-fields.txt")).devices[1]

    assert (device.device_index, device.core_percent, device.numa_node) == (1, 100, None)
    assert device.mode is DeviceMode.HAMI_CORE
    assert not device.is_healthy


def test_a_value_that_json_leaves_out_is_zero_or_false():
    (device,) = decode('[{"id":"GPU-a","type":"NVIDIA A10"}]').devices

    assert (device.device_index, device.memory_mib, device.slot_count, device.numa_node) == (0,) * 4
    assert not device.is_healthy


def test_no_numa_node_and_numa_node_zero_are_told_apart():
    for numa in (None, 0, 1):
        inventory = make_inventory("node-1", make_device(numa_node=numa))

        assert decode(encode_node_inventory(inventory)).devices[0].numa_node == numa


def test_a_numa_node_below_zero_is_none():
    assert decode("GPU-a,1,1,1,NVIDIA A10,-1,true:").devices[0].numa_node is None


def test_a_node_without_devices_registers_an_empty_list():
    assert decode("[]").devices == ()
    assert encode_node_inventory(decode("[]")) == "[]"


@given(inventories)
def test_an_inventory_survives_writing_and_reading(inventory):
    assert decode(encode_node_inventory(inventory)) == inventory


@given(inventories)
def test_the_order_of_devices_does_not_change_what_is_written(inventory):
    turned = type(inventory)(node_name="node-1", devices=inventory.devices[::-1])

    assert encode_node_inventory(turned) == encode_node_inventory(inventory)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "neither JSON nor entries", id="nothing"),
        pytest.param("GPU-a", "neither JSON nor entries", id="a word"),
        pytest.param("GPU-a,1,1,NVIDIA,true", "neither JSON nor entries", id="no colon at all"),
        pytest.param("G,1,1,N,true:G2,1", "does not end with ':'", id="an entry cut short"),
        pytest.param("GPU-a,1,1,NVIDIA:", "entry 0 has 4 fields", id="four fields"),
        pytest.param("a,1,1,1,N,0,true,0:", "entry 0 has 8 fields", id="eight fields"),
        pytest.param("G,x,1,N,true:", "entry 0: count is 'x', not a whole", id="a word as number"),
        pytest.param("G,1.5,1,N,true:", "count is '1.5', not a whole number", id="a fraction"),
        pytest.param("G,1,-5,N,true:", "devmem is -5; allowed is 0 to", id="negative memory"),
        pytest.param("G,1,9999999999,N,true:", "devmem is 9999999999", id="absurd memory"),
        pytest.param("G,1,99999999999999,N,true:", "not a whole number", id="endless digits"),
        pytest.param("G,1,1,N,yes:", "health is 'yes', not true or false", id="health in words"),
        pytest.param(",1,1,N,true:", "entry 0: id is empty", id="no UUID"),
        pytest.param("G,1,1,,true:", "entry 0: type is empty", id="no model"),
        pytest.param("G,1,1,1,N,0,true,-1,mig:", "index is -1", id="a negative index"),
        pytest.param("G,1,1,1,N,0,true,0,warp:", "mode is 'warp'; known are", id="unknown mode"),
        pytest.param("G,1,1,1,N,0,true,0,:", "mode is empty", id="no mode where there must be one"),
        pytest.param("G,1,1,N,true:G,1,1,N,true:", "device G appears twice", id="a UUID twice"),
        pytest.param("[", "it is no JSON", id="JSON cut short"),
        pytest.param("{}", "the JSON is an object, not a list", id="an object"),
        pytest.param("[1]", "entry 0 is a number, not an object", id="a list of numbers"),
        pytest.param('[{"type":"N"}]', "entry 0: id is null", id="JSON without UUID"),
        pytest.param(
            '[{"id":"G","type":"N","count":"1"}]', "count is a string", id="count as text"
        ),
        pytest.param('[{"id":"G","type":"N","devmem":1.5}]', "devmem is a number", id="half a MiB"),
        pytest.param('[{"id":"G","type":"N","health":1}]', "health is a number", id="health as 1"),
        pytest.param('[{"id":"G","type":"N","mode":1}]', "mode is a number", id="mode as 1"),
    ],
)
def test_a_malformed_registration_is_refused_with_the_node_the_reason_and_the_text(text, message):
    with pytest.raises(AnnotationError, match=r"node 'node-1' registers .*") as caught:
        decode(text)

    assert message in caught.value.message
    assert caught.value.message.endswith(repr(text))


@given(st.text() | st.text('GPU-a,:;[]{}"1true0.\n '))
def test_any_text_is_an_inventory_or_an_annotation_error(text):
    with suppress(AnnotationError):
        decode(text)


def test_link_scores_are_read_and_written_with_the_same_bytes():
    text = golden_text("node/link-scores.txt")

    scores = decode_link_scores(text)

    assert scores == {"GPU-a": {"GPU-b": 1230, "GPU-c": 10}, "GPU-b": {"GPU-a": 1230}}
    assert encode_link_scores(scores) == text


@given(
    st.dictionaries(names, st.dictionaries(names, st.integers(0, 5_000), max_size=3), max_size=3)
)
def test_link_scores_survive_writing_and_reading(scores):
    assert decode_link_scores(encode_link_scores(scores)) == scores


def test_a_device_alone_on_its_node_has_no_links():
    assert decode_link_scores('[{"uuid":"GPU-a"},{"uuid":"GPU-b","score":null}]') == {
        "GPU-a": {},
        "GPU-b": {},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no JSON"),
        ("{}", "the JSON is an object"),
        ("[1]", "entry 0 is a number"),
        ('[{"score":{}}]', "entry 0: uuid is null"),
        ('[{"uuid":"a","score":[1]}]', "entry 0: score is a list"),
        ('[{"uuid":"a","score":{"b":"1"}}]', "entry 0: score of b is a string"),
        ('[{"uuid":"a","score":{"b":-1}}]', "entry 0: score of b is -1"),
        ('[{"uuid":"a"},{"uuid":"a"}]', "device a appears twice"),
    ],
)
def test_malformed_link_scores_are_refused(text, message):
    with pytest.raises(AnnotationError) as caught:
        decode_link_scores(text)

    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "uuids"),
    [("", set()), ("GPU-a", {"GPU-a"}), (" GPU-a , ,GPU-b,", {"GPU-a", "GPU-b"})],
)
def test_a_cordon_lists_uuids(text, uuids):
    assert decode_cordon(text) == uuids
