import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.allocation_record import (
    decode_allocation,
    devices_feared,
    encode_allocation,
    read_allocation,
)
from hamid.codec.pod_annotation import encode_hami_annotations
from hamid.errors import AnnotationError, RequestError
from hamid.model import names as wire
from hamid.model.device import DeviceShare
from hamid.model.names import ResourceNames
from hamid.model.request import ContainerKind
from tests.builders import (
    container_object,
    make_allocation,
    make_container_allocation,
    make_share,
    pod_object,
)
from tests.codec.golden_files import golden_text
from tests.codec.strategies import allocations, json_values, objects_with

GOLDEN = golden_text("record/version-1.txt")


def changed(**changes):
    """The golden record with some keys replaced, as text."""
    return json.dumps(json.loads(GOLDEN) | changes)


def with_container(**changes):
    """The golden record whose container `prepare` has some keys replaced, as text."""
    record = json.loads(GOLDEN)
    record["containers"]["prepare"] |= changes
    return json.dumps(record)


def with_share(**changes):
    """The golden record with one share that has some keys replaced, as text."""
    share = {"uuid": "GPU-a", "memory_mib": 1, "core_percent": 0} | changes
    return with_container(shares=[share])


def test_a_record_of_version_1_is_read_and_written_with_the_same_bytes():
    allocation = decode_allocation(GOLDEN)

    assert encode_allocation(allocation) == GOLDEN
    prepare, train = allocation.containers
    assert (prepare.container_name, prepare.kind, prepare.priority) == (
        "prepare",
        ContainerKind.INIT,
        None,
    )
    assert train.priority == 1
    assert train.shares[1] == DeviceShare(device_uuid="GPU-b", memory_mib=3000, core_percent=30)


@given(allocations())
def test_an_allocation_survives_writing_and_reading(allocation):
    assert decode_allocation(encode_allocation(allocation)) == allocation


def test_a_newer_version_is_refused_and_says_to_upgrade():
    with pytest.raises(AnnotationError, match="is of version 2; this release reads version 1") as e:
        decode_allocation(changed(version=2))

    assert "upgrade" in e.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is no JSON", id="nothing"),
        pytest.param("[]", "the JSON is a list", id="a list"),
        pytest.param("{}", "version is null", id="no version"),
        pytest.param(changed(version="1"), "version is a string", id="a version in words"),
        pytest.param(changed(pod_uid=""), "pod_uid is empty", id="no UID"),
        pytest.param(changed(node=None), "node is null", id="no node"),
        pytest.param(changed(containers=[]), "containers is a list", id="containers by place"),
        pytest.param(changed(extra=1), "the record has the unknown key 'extra'", id="unknown key"),
        pytest.param(changed(containers={"": {}}), "a container name is empty", id="no name"),
        pytest.param(changed(containers={"c": 1}), "container 'c' is a number", id="no container"),
        pytest.param(with_container(kind="x"), "kind is 'x'; known are", id="an unknown kind"),
        pytest.param(with_container(kind=None), "kind is null", id="no kind"),
        pytest.param(with_container(shares=None), "shares is null", id="no shares"),
        pytest.param(with_container(more=1), "the unknown key 'more'", id="unknown in container"),
        pytest.param(with_container(priority=-1), "priority is -1", id="a negative priority"),
        pytest.param(with_container(shares=[1]), "share 0 is a number", id="a share as number"),
        pytest.param(with_share(uuid=""), "uuid is empty", id="no UUID"),
        pytest.param(with_share(memory_mib=-1), "memory_mib is -1", id="negative memory"),
        pytest.param(with_share(core_percent="9"), "core_percent is a string", id="cores as text"),
        pytest.param(with_share(slot=1), "the unknown key 'slot'", id="unknown in share"),
    ],
)
def test_a_malformed_record_is_refused_with_the_reason(text, message):
    with pytest.raises(AnnotationError) as caught:
        decode_allocation(text)

    assert message in caught.value.message


KEYS = ("version", "pod_uid", "node", "containers", "kind", "shares", "uuid", "memory_mib")


@pytest.mark.slow
@given(st.text() | json_values.map(json.dumps) | objects_with(*KEYS).map(json.dumps))
def test_any_text_is_an_allocation_or_an_annotation_error(text):
    with suppress(AnnotationError):
        decode_allocation(text)


def placed(allocation, **overrides):
    """A pod that was placed by us."""
    values = {"uid": allocation.pod_uid, "node_name": allocation.node_name}
    values["annotations"] = {"hamid.io/allocation": encode_allocation(allocation)}
    return pod_object(**(values | overrides))


def test_a_pod_holds_what_its_record_says():
    allocation = make_allocation()

    assert read_allocation(placed(allocation)) == allocation


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"uid": "uid-2"}, id="of another pod"),
        pytest.param({"node_name": "node-2"}, id="of another node"),
        pytest.param({"node_name": None}, id="of a pod that is not bound"),
    ],
)
def test_a_record_that_was_copied_is_refused(overrides):
    with pytest.raises(AnnotationError, match=r"pod default/pod-1: .* is for UID 'uid-1' on node"):
        read_allocation(placed(make_allocation(), **overrides))


def test_our_record_counts_and_not_hamis_beside_it():
    allocation = make_allocation()
    pod = placed(allocation)
    pod["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "node-1",
        "hami.io/vgpu-devices-allocated": "GPU-z,NVIDIA,1,1:;",
    }

    assert read_allocation(pod) == allocation


def placed_by_hami(*containers, annotations=None, **overrides):
    """A pod that HAMi placed: an init container without devices, then one that asks."""
    allocation = make_allocation(make_container_allocation(make_share(memory_mib=3000)))
    written = encode_hami_annotations(
        allocation, container_names=("prepare", "train"), decided_at_s=1
    )
    return pod_object(
        *(containers or (container_object("train", {"gpu": 1}),)),
        init_containers=[container_object("prepare")],
        annotations=written | (annotations or {}),
        **({"node_name": "node-1"} | overrides),
    )


def test_a_pod_that_hami_placed_holds_what_hamis_text_says():
    allocation = read_allocation(placed_by_hami())

    assert (allocation.pod_uid, allocation.node_name) == ("uid-1", "node-1")
    (container,) = allocation.containers
    assert (container.container_name, container.kind) == ("train", ContainerKind.APP)
    assert container.shares[0].memory_mib == 3000


@pytest.mark.parametrize(
    "container",
    [
        container_object("train", {"gpu": 1}),
        container_object("train", requests={"gpumem": "3000"}),
        container_object("train", {"gpu": 0}, requests={"gpucores": 10}),
    ],
)
def test_hamis_text_without_empty_marks_goes_to_the_container_that_asks(container):
    pod = placed_by_hami(
        container, annotations={"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;"}
    )

    (found,) = read_allocation(pod).containers

    assert found.container_name == "train"


def test_hamis_text_is_understood_with_renamed_resources():
    names = ResourceNames(count="example.com/vgpu")
    pod = placed_by_hami(
        container_object("train", {"example.com/vgpu": 1}),
        annotations={"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;"},
    )

    assert read_allocation(pod, names=names).containers[0].container_name == "train"


def test_ephemeral_containers_have_no_place_in_hamis_text():
    pod = placed_by_hami(ephemeralContainers=[container_object("debug")])

    assert read_allocation(pod).containers[0].container_name == "train"


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"node_name": None}, id="not bound"),
        pytest.param({"node_name": "node-2"}, id="bound to another node"),
        pytest.param({"annotations": {"hami.io/vgpu-devices-allocated": ";;"}}, id="no devices"),
    ],
)
def test_a_decision_of_hami_that_did_not_become_a_binding_holds_nothing(overrides):
    assert read_allocation(placed_by_hami(**overrides)) is None


def test_a_pod_without_any_record_holds_nothing():
    assert read_allocation(pod_object(node_name="node-1")) is None


@pytest.mark.slow
@given(
    objects_with(
        "metadata",
        "annotations",
        "spec",
        "containers",
        "name",
        "resources",
        "limits",
        "hami.io/vgpu-node",
    )
)
def test_any_object_is_read_or_refused(pod):
    with suppress(AnnotationError, RequestError):
        read_allocation(pod)


@pytest.mark.parametrize(
    ("annotations", "feared"),
    [
        pytest.param({}, (), id="nothing is said"),
        pytest.param({wire.POD_ALLOCATION: "{"}, (), id="nothing is named"),
        pytest.param(
            {wire.POD_ALLOCATION: '{"uuid": "GPU-1', wire.POD_ALLOCATED: "GPU-2,NVIDIA,1,0:;"},
            ("uuid", "GPU-1", "GPU-2", "NVIDIA"),
            id="each word may be one",
        ),
    ],
)
def test_of_a_record_that_cannot_be_read_all_words_may_be_devices(annotations, feared):
    assert devices_feared(pod_object(annotations=annotations)) == feared
