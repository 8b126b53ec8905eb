"""Values and messages: round trips, and a list that is encoded only where it changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.kubelet import v1beta1
from hamid.kubelet.errors import CallFailed
from hamid.kubelet.messages import (
    DeviceListEncoder,
    decode_devices,
    decode_grant,
    decode_preferred_request,
    encode_allocate_request,
    encode_device,
    encode_grant,
    encode_preferred_request,
)
from hamid.kubelet.port import (
    AdvertisedDevice,
    ContainerGrant,
    DeviceNode,
    Mount,
    PreferredRequest,
)

words = st.text(min_size=1, max_size=10)
maps = st.dictionaries(words, st.text(max_size=10), max_size=3)
grants = st.builds(
    ContainerGrant,
    envs=maps,
    annotations=maps,
    cdi_devices=st.lists(words, max_size=3).map(tuple),
    mounts=st.lists(
        st.builds(Mount, container_path=words, host_path=words, is_read_only=st.booleans()),
        max_size=3,
    ).map(tuple),
    device_nodes=st.lists(
        st.builds(DeviceNode, container_path=words, host_path=words, permissions=words), max_size=3
    ).map(tuple),
)
devices = st.builds(
    AdvertisedDevice,
    slot_id=words,
    is_healthy=st.booleans(),
    numa_nodes=st.lists(st.integers(0, 8), max_size=2, unique=True).map(tuple),
)


def make_devices(count):
    return tuple(AdvertisedDevice(slot_id=f"GPU-{n}", numa_nodes=(n % 2,)) for n in range(count))


@given(grants)
def test_a_grant_comes_back_as_it_was(grant):
    wire = bytes(encode_grant(grant))

    assert decode_grant(v1beta1.ContainerAllocateResponse.FromString(wire)) == grant


@given(st.lists(devices, max_size=5, unique_by=lambda device: device.slot_id).map(tuple))
def test_the_joined_list_is_what_encoding_it_in_one_piece_gives(advertised):
    joined = DeviceListEncoder().encode(advertised)

    whole = v1beta1.ListAndWatchResponse(devices=[encode_device(d) for d in advertised])
    assert bytes(joined) == bytes(whole)
    assert decode_devices(v1beta1.ListAndWatchResponse.FromString(joined)) == advertised


def test_a_device_is_healthy_in_the_kubelets_word():
    healthy, sick = (encode_device(AdvertisedDevice(slot_id="a", is_healthy=h)) for h in (1, 0))

    assert (healthy.health, sick.health) == ("Healthy", "Unhealthy")
    assert healthy.topology is None


def test_numa_node_zero_is_said():
    encoded = bytes(encode_device(AdvertisedDevice(slot_id="a", numa_nodes=(0,))))

    decoded = v1beta1.Device.FromString(encoded)
    assert decoded.topology is not None
    assert [node.id for node in decoded.topology.nodes] == [0]


def test_an_unchanged_list_is_the_same_bytes_object():
    encoder = DeviceListEncoder()

    first = encoder.encode(make_devices(10))
    second = encoder.encode(make_devices(10))

    assert second is first
    assert encoder.encoded_device_count == 10


def test_only_changed_devices_are_encoded_again():
    encoder = DeviceListEncoder()
    before = make_devices(10)
    encoder.encode(before)

    encoder.encode((*before[:9], replace(before[9], is_healthy=False)))

    assert encoder.encoded_device_count == 11


def test_devices_that_went_away_are_forgotten():
    encoder = DeviceListEncoder()
    encoder.encode(make_devices(10))
    encoder.encode(make_devices(5))

    encoder.encode(make_devices(10))

    assert encoder.encoded_device_count == 15


def test_a_list_that_the_kubelet_could_not_take_is_refused_with_what_to_lower():
    big = tuple(AdvertisedDevice(slot_id=f"{n}-{'x' * 1_000_000}") for n in range(5))

    with pytest.raises(CallFailed, match="5 slots make a device list of") as caught:
        DeviceListEncoder().encode(big)

    assert "device-split-count" in caught.value.hint


def test_a_question_comes_back_as_it_was():
    asked = PreferredRequest(available=("a", "b", "c"), must_include=("c",), size=2)

    [request] = encode_preferred_request(asked).container_requests

    assert decode_preferred_request(request) == asked


def test_a_request_is_for_one_container():
    request = encode_allocate_request(("a", "b"))

    assert [list(one.devices_ids) for one in request.container_requests] == [["a", "b"]]
