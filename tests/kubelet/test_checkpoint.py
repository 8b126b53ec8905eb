"""The kubelet's checkpoint: what a real one wrote is read, what is not understood is an error."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from hamid.kubelet.checkpoint import CheckpointFile, decode_checkpoint, read_checkpoint
from hamid.kubelet.errors import CheckpointUnreadable
from hamid.kubelet.port import CheckpointEntry

GOLDEN = Path(__file__).parent / "golden" / "checkpoint_1_37.json"


def make_document(**overrides):
    entry = {
        "PodUID": "uid",
        "ContainerName": "main",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"-1": ["a"]},
        "AllocResp": "",
    }
    return {"Data": {"PodDeviceEntries": [{**entry, **overrides}], "RegisteredDevices": {}}}


def test_the_file_of_a_real_kubelet_is_read():
    entries = decode_checkpoint(GOLDEN.read_bytes())

    uid = "9c7c2c78-5e66-4ade-ae4a-9384b7a59ced"
    held = [("init", ("GPU-1-3",)), ("a", ("GPU-1-3",)), ("b", ("GPU-1-2", "GPU-1-1"))]
    assert entries == tuple(
        CheckpointEntry(
            pod_uid=uid,
            container_name=name,
            resource_name="nvidia.com/gpu",
            slot_ids=slot_ids,
            envs={"TOY_DEVICES": ",".join(slot_ids)},
        )
        for name, slot_ids in held
    )


@pytest.mark.parametrize("answer", [None, 7, "%%%", "/////w=="])
def test_an_answer_that_cannot_be_read_has_no_envs(answer):
    [entry] = decode_checkpoint(orjson.dumps(make_document(AllocResp=answer)))

    assert entry.envs == {}


@pytest.mark.parametrize(
    ("device_ids", "slot_ids"),
    [
        pytest.param({"0": ["a"], "1": ["b"]}, ("a", "b"), id="several NUMA nodes are merged"),
        pytest.param({"0": ["a"], "1": ["a"]}, ("a",), id="an id near two nodes counts once"),
        pytest.param(["a", "b"], ("a", "b"), id="a plain list, as before 1.20"),
        pytest.param({"-1": None}, (), id="a null list is empty"),
        pytest.param(None, (), id="no ids at all are empty"),
    ],
)
def test_ids_come_in_several_shapes(device_ids, slot_ids):
    [entry] = decode_checkpoint(orjson.dumps(make_document(DeviceIDs=device_ids)))

    assert entry.slot_ids == slot_ids


def test_no_entries_are_none():
    content = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'

    assert decode_checkpoint(content) == ()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        pytest.param(b"", "not JSON", id="an empty file"),
        pytest.param(b'{"Data":{"PodDevi', "not JSON", id="half a file"),
        pytest.param(b"[]", "Data.PodDeviceEntries", id="a list"),
        pytest.param(b'{"V2":{}}', "Data.PodDeviceEntries", id="another version"),
        pytest.param(
            b'{"Data":{"PodDeviceEntries":{}}}', "Data.PodDeviceEntries", id="entries as a map"
        ),
        pytest.param(b'{"Data":{"PodDeviceEntries":[7]}}', "entry 0", id="an entry that is none"),
        pytest.param(orjson.dumps(make_document(PodUID="")), "PodUID", id="an empty UID"),
        pytest.param(
            orjson.dumps(make_document(ContainerName=None)), "ContainerName", id="no name"
        ),
        pytest.param(orjson.dumps(make_document(ResourceName=3)), "ResourceName", id="a number"),
        pytest.param(orjson.dumps(make_document(DeviceIDs=3)), "DeviceIDs", id="ids as a number"),
        pytest.param(
            orjson.dumps(make_document(DeviceIDs={"0": "a"})), "DeviceIDs", id="ids as a text"
        ),
        pytest.param(
            orjson.dumps(make_document(DeviceIDs={"0": [1]})), "DeviceIDs", id="ids as numbers"
        ),
    ],
)
def test_what_is_not_understood_is_an_error(content, named):
    with pytest.raises(CheckpointUnreadable, match=named) as caught:
        decode_checkpoint(content)

    assert caught.value.hint


async def test_a_file_that_is_not_there_yet_has_no_entries(tmp_path):
    assert await read_checkpoint(tmp_path / "none") == ()


async def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(CheckpointUnreadable, match=str(tmp_path)):
        await read_checkpoint(tmp_path)


async def test_the_port_reads_its_file():
    entries = await CheckpointFile(path=GOLDEN).read()

    assert len(entries) == 3
