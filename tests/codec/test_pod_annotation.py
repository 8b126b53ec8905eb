from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.pod_annotation import (
    decode_hami_allocation,
    encode_hami_annotations,
    hami_labels,
)
from hamid.errors import AnnotationError
from hamid.model.device import DeviceShare
from hamid.model.request import ContainerKind
from tests.builders import make_allocation, make_container_allocation, make_share
from tests.codec.golden_files import golden_json, golden_names
from tests.codec.strategies import allocations

ALL = golden_names("pod", "*.json")
BOTH_WAYS = [name for name in ALL if not name.startswith("read-only")]

APP = ContainerKind.APP


def slots(case):
    return [(name, ContainerKind(kind), asks) for name, kind, asks in case["containers"]]


@pytest.mark.parametrize("name", ALL)
def test_a_text_of_the_field_gives_each_container_its_own_shares(name):
    case = golden_json(f"pod/{name}.json")

    found = decode_hami_allocation(case["text"], containers=slots(case))

    assert {
        c.container_name: [[s.device_uuid, s.memory_mib, s.core_percent] for s in c.shares]
        for c in found
    } == case["shares"]
    kinds = {name: kind for name, kind, _ in slots(case)}
    assert all(c.kind is kinds[c.container_name] and c.priority is None for c in found)


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_what_hami_writes_is_written_with_the_same_bytes(name):
    case = golden_json(f"pod/{name}.json")
    found = decode_hami_allocation(case["text"], containers=slots(case))

    written = encode_hami_annotations(
        make_allocation(containers=found),
        container_names=tuple(name for name, _, _ in slots(case)),
        decided_at_s=0,
    )

    assert written["hami.io/vgpu-devices-allocated"] == case["text"]


def test_the_annotations_are_those_of_a_pod_whose_devices_were_handed_over():
    allocation = make_allocation(
        make_container_allocation(
            make_share(device_uuid="GPU-a", memory_mib=3000, core_percent=30)
        ),
        node_name="node-1",
    )

    written = encode_hami_annotations(
        allocation, container_names=("prepare", "train"), decided_at_s=1755757239
    )

    assert written == {
        "hami.io/vgpu-node": "node-1",
        "hami.io/vgpu-time": "1755757239",
        "hami.io/vgpu-devices-allocated": ";GPU-a,NVIDIA,3000,30:;",
        "hami.io/vgpu-devices-to-allocate": ";;",
        "hami.io/bind-time": "1755757239",
        "hami.io/bind-phase": "success",
    }


@pytest.mark.parametrize(("length", "has_label"), [(6, True), (63, True), (64, False)])
def test_hamis_monitor_finds_a_pod_by_a_label_if_the_nodes_name_can_be_one(length, has_label):
    name = "n" * length

    labels = hami_labels(make_allocation(node_name=name))

    assert labels == ({"hami.io/vgpu-node": name} if has_label else {})


def test_an_allocation_for_a_container_that_the_pod_lacks_is_not_written_silently():
    with pytest.raises(ValueError, match="'train'"):
        encode_hami_annotations(make_allocation(), container_names=("other",), decided_at_s=0)


@given(allocations(may_have_priority=False), st.data())
def test_an_allocation_survives_writing_and_reading(allocation, data):
    slots = [(c.container_name, c.kind, True) for c in allocation.containers]
    for n in range(data.draw(st.integers(0, 3))):
        slots.insert(data.draw(st.integers(0, len(slots))), (f"IDLE-{n}", APP, False))
    written = encode_hami_annotations(
        allocation, container_names=tuple(name for name, _, _ in slots), decided_at_s=0
    )

    found = decode_hami_allocation(written["hami.io/vgpu-devices-allocated"], containers=slots)

    assert found == allocation.containers


@given(allocations(may_have_priority=False), st.data())
def test_it_survives_when_the_marks_of_empty_containers_are_missing(allocation, data):
    slots = [(c.container_name, c.kind, True) for c in allocation.containers]
    text = encode_hami_annotations(
        allocation, container_names=tuple(name for name, _, _ in slots), decided_at_s=0
    )["hami.io/vgpu-devices-allocated"]
    slots.insert(data.draw(st.integers(0, len(slots))), ("IDLE", APP, False))

    assert decode_hami_allocation(text, containers=slots) == allocation.containers


def test_a_full_text_is_matched_by_place_whoever_asks():
    (found,) = decode_hami_allocation(
        ";GPU-a,NVIDIA,1,0:;", containers=[("a", APP, True), ("b", APP, False)]
    )

    assert found.container_name == "b"
    assert found.shares == (DeviceShare(device_uuid="GPU-a", memory_mib=1, core_percent=0),)


@pytest.mark.parametrize(
    ("text", "asking", "message"),
    [
        pytest.param("a,NVIDIA,1:;", [True], "has 3 fields; 4 are needed", id="three fields"),
        pytest.param("a,NVIDIA,x,0:;", [True], "'x' in device", id="a word as amount"),
        pytest.param("a,NVIDIA,-1,0:;", [True], "'-1' in device", id="a negative amount"),
        pytest.param("a,NVIDIA,1,1.5:;", [True], "'1.5' in device", id="a fraction"),
        pytest.param("a,NVIDIA,9999999999,0:;", [True], "'9999999999' in", id="an absurd amount"),
        pytest.param(",NVIDIA,1,0:;", [True], "has no UUID", id="no UUID"),
        pytest.param("[0-1],NVIDIA,1,0:;", [True], "has no UUID", id="only a MIG slot"),
        pytest.param(
            "a,NVIDIA,1,0:;", [True, True], "1 containers have devices, but 2", id="one too few"
        ),
        pytest.param(
            "a,NVIDIA,1,0:;", [False, False], "1 containers have devices, but 0", id="none asks"
        ),
        pytest.param(
            "a,NVIDIA,1,0:;b,NVIDIA,1,0:;", [True], "more than the pod's 1", id="one too many"
        ),
    ],
)
def test_a_malformed_text_is_refused_with_the_reason_and_the_text(text, asking, message):
    containers = [(f"c{n}", APP, asks) for n, asks in enumerate(asking)]

    with pytest.raises(AnnotationError) as caught:
        decode_hami_allocation(text, containers=containers)

    assert message in caught.value.message
    assert caught.value.message.endswith(repr(text))


@given(st.text() | st.text("GPU-a,NVIDIA:;10[]"), st.lists(st.booleans(), max_size=3))
def test_any_text_is_an_allocation_or_an_annotation_error(text, asking):
    containers = [(f"c{n}", APP, asks) for n, asks in enumerate(asking)]
    with suppress(AnnotationError):
        decode_hami_allocation(text, containers=containers)
