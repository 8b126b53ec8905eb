"""The client of the Pods API, where it is and where it is not."""

from __future__ import annotations

import pytest

from hamid.kubelet import pods_v1alpha1
from hamid.kubelet.errors import CallFailed, NotServed
from hamid.kubelet.fake import FakeFeatures, FakeKubelet, FakePod
from hamid.kubelet.grpc_unix import UnixServer
from hamid.kubelet.pods_api import PodsApiClient, decode_pod
from hamid.kubelet.port import KubeletPod


async def test_pods_come_with_their_uid(short_path):
    async with FakeKubelet(short_path) as kubelet:
        await kubelet.admit(FakePod(name="p", uid="u", containers=(), annotations={"k": "v"}))
        client = PodsApiClient(socket_path=kubelet.pods_api_socket)
        pods = await client.list_pods()
        client.close()

    assert pods == (KubeletPod(namespace="default", name="p", uid="u"),)


async def test_an_older_kubelet_has_no_socket_for_it(short_path):
    features = FakeFeatures(has_pods_api=False)
    async with FakeKubelet(short_path, features=features) as kubelet:
        client = PodsApiClient(socket_path=kubelet.pods_api_socket)

        assert not client.is_served
        with pytest.raises(NotServed, match=r"pods-api\.sock"):
            await client.list_pods()


async def test_a_kubelet_upgraded_meanwhile_is_noticed(short_path):
    kubelet = FakeKubelet(short_path)
    client = PodsApiClient(socket_path=kubelet.pods_api_socket)
    assert not client.is_served

    async with kubelet:
        assert client.is_served
        assert await client.list_pods() == ()
        client.close()


async def test_a_socket_that_refuses_the_call_is_not_asked_again(short_path):
    path = short_path / "p.sock"
    server = await UnixServer.open(path, [pods_v1alpha1.PodsBase()])
    client = PodsApiClient(socket_path=path)
    assert client.is_served

    with pytest.raises(NotServed):
        await client.list_pods()

    assert not client.is_served
    client.close()
    await server.close()


async def test_a_newer_kubelet_is_asked_though_the_one_before_refused(short_path):
    root = short_path / "kubelet"
    path = FakeKubelet(root).pods_api_socket
    path.parent.mkdir(parents=True)
    server = await UnixServer.open(path, [pods_v1alpha1.PodsBase()])
    client = PodsApiClient(socket_path=path)
    with pytest.raises(NotServed):
        await client.list_pods()
    await server.close()
    client.close()

    async with FakeKubelet(root):
        assert client.is_served
        assert await client.list_pods() == ()
        client.close()


def test_a_payload_without_metadata_is_a_pod_without_a_name():
    assert decode_pod(b"") == KubeletPod(namespace="", name="", uid="")


@pytest.mark.parametrize(
    "payload", [b"\x0a\x50abc", b"\x0a", b"\xff" * 20, b"\x0b", b"\x09abc", b"\x0a\x03\x0a\x01\xff"]
)
def test_a_payload_that_is_no_protobuf_is_an_error(payload):
    with pytest.raises(CallFailed, match="no protobuf"):
        decode_pod(payload)


def test_the_packages_payload_is_what_is_decoded():
    metadata = pods_v1alpha1.ObjectMeta(name="p", namespace="n", uid="u", annotations={"a": ""})

    pod = decode_pod(bytes(pods_v1alpha1.Pod(metadata=metadata)))

    assert pod == KubeletPod(namespace="n", name="p", uid="u")


def test_what_else_a_pod_has_is_skipped_whatever_its_type():
    metadata = bytes(pods_v1alpha1.ObjectMeta(name="p", namespace="n", uid="u"))
    others = b"\x12\x03abc\x18\x96\x01\x21" + bytes(8) + b"\x2d" + bytes(4)

    pod = decode_pod(others + b"\x0a" + bytes([len(metadata)]) + metadata + others)

    assert pod == KubeletPod(namespace="n", name="p", uid="u")


def test_metadata_in_two_parts_are_one():
    parts = (bytes(pods_v1alpha1.ObjectMeta(name="p")), bytes(pods_v1alpha1.ObjectMeta(uid="u")))

    pod = decode_pod(b"".join(b"\x0a" + bytes([len(part)]) + part for part in parts))

    assert pod == KubeletPod(namespace="", name="p", uid="u")
