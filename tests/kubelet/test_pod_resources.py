"""The client of pod resources, on kubelets that have it, lack parts of it, or are away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hamid.aiokit.services import running
from hamid.kubelet import podresources_v1
from hamid.kubelet.errors import CallFailed, NotServed, SocketGone
from hamid.kubelet.fake import FakeContainer, FakeFeatures, FakeKubelet, FakePod, GetSupport
from hamid.kubelet.grpc_unix import UnixServer
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.port import ContainerDevices, PodDevices
from tests.kubelet.plugin import RESOURCE, make_registrar

POD = FakePod(name="p", uid="u", containers=(FakeContainer(count=2),))


@asynccontextmanager
async def asked(path, *, timeout_s=2.0, **features):
    """A kubelet with a running pod, and a client."""
    async with FakeKubelet(path, features=FakeFeatures(**features)) as kubelet:
        async with running(make_registrar(kubelet)):
            await kubelet.wait_for_allocatable(RESOURCE, 6)
            await kubelet.run_pod(POD)
        client = PodResourcesClient(
            resource_name=RESOURCE, socket_path=kubelet.pod_resources_socket, timeout_s=timeout_s
        )
        try:
            yield kubelet, client
        finally:
            client.close()


def shown(kubelet):
    slot_ids = tuple(sorted(kubelet.slot_ids("u", "main")))
    held = ContainerDevices(container_name="main", slot_ids=slot_ids)
    return PodDevices(namespace="default", name="p", containers=(held,))


async def test_a_pod_is_found_in_the_list_and_by_name(short_path):
    async with asked(short_path) as (kubelet, client):
        assert await client.list() == (shown(kubelet),)
        assert await client.get("default", "p") == shown(kubelet)
        assert client.can_get


@pytest.mark.parametrize("support", [GetSupport.DISABLED, GetSupport.UNIMPLEMENTED])
async def test_where_get_is_lacking_the_list_serves_and_it_is_said_once(short_path, support, logs):
    async with asked(short_path, get_support=support) as (kubelet, client):
        logs.clear()
        assert await client.get("default", "p") == shown(kubelet)
        assert await client.get("default", "nobody") is None

        assert not client.can_get
        assert [entry["event"] for entry in logs] == ["pod resources lack get"]


async def test_a_newer_kubelet_is_asked_for_one_pod_though_the_one_before_refused(short_path):
    async with asked(short_path, get_support=GetSupport.DISABLED) as (kubelet, client):
        await client.get("default", "p")
        had_get = client.can_get
        kubelet.features = replace(kubelet.features, get_support=GetSupport.SERVED)
        await kubelet.restart()
        client.close()

        assert await client.get("default", "nobody") is None
        assert client.can_get
        assert not had_get


async def test_slots_of_other_resources_are_left_out(short_path):
    async with asked(short_path) as (kubelet, _):
        client = PodResourcesClient(
            resource_name="nvidia.com/mig", socket_path=kubelet.pod_resources_socket
        )
        [pod] = await client.list()
        client.close()

    assert pod.containers == (ContainerDevices(container_name="main", slot_ids=()),)


async def test_a_busy_kubelet_is_asked_again(short_path):
    async with asked(short_path) as (kubelet, client):
        found = [await client.get("default", "p") for _ in range(25)]  # the burst is ten

        assert found == [shown(kubelet)] * 25


async def test_a_restarted_kubelet_is_found_again_by_the_same_client(short_path):
    async with asked(short_path) as (kubelet, client):
        before = await client.list()
        await kubelet.restart()

        assert await client.list() == before


async def test_a_kubelet_that_is_away_is_an_error_that_says_where(short_path):
    client = PodResourcesClient(resource_name=RESOURCE, socket_path=short_path / "none.sock")

    with pytest.raises(SocketGone, match=r"none\.sock") as caught:
        await client.get("default", "p")

    assert caught.value.hint


class StuckKubelet(podresources_v1.PodResourcesListerBase):
    async def list(self, message):  # noqa: ARG002 - the signature of the service
        await asyncio.Event().wait()


async def test_a_kubelet_that_does_not_answer_is_given_up(short_path):
    path = short_path / "k.sock"
    server = await UnixServer.open(path, [StuckKubelet()])
    client = PodResourcesClient(resource_name=RESOURCE, socket_path=path, timeout_s=0.01)

    with pytest.raises(CallFailed, match=r"no answer within 0\.01 s"):
        await client.list()
    client.close()
    await server.close()


async def test_a_kubelet_without_the_whole_api_says_so(short_path):
    path = short_path / "k.sock"
    server = await UnixServer.open(path, [podresources_v1.PodResourcesListerBase()])
    client = PodResourcesClient(resource_name=RESOURCE, socket_path=path)

    with pytest.raises(NotServed):
        await client.get("default", "p")
    client.close()
    await server.close()


async def test_ids_of_several_numa_nodes_are_merged(short_path):
    entry = podresources_v1.ContainerDevices
    container = podresources_v1.ContainerResources(
        name="main",
        devices=[
            entry(resource_name=RESOURCE, device_ids=["b"]),
            entry(resource_name="other/x", device_ids=["z"]),
            entry(resource_name=RESOURCE, device_ids=["a", "b"]),
        ],
    )

    class Kubelet(podresources_v1.PodResourcesListerBase):
        async def list(self, message):  # noqa: ARG002 - the signature of the service
            pod = podresources_v1.PodResources(name="p", namespace="n", containers=[container])
            return podresources_v1.ListPodResourcesResponse(pod_resources=[pod])

    path = short_path / "k.sock"
    server = await UnixServer.open(path, [Kubelet()])
    client = PodResourcesClient(resource_name=RESOURCE, socket_path=path)
    [pod] = await client.list()
    client.close()
    await server.close()

    assert pod.containers[0].slot_ids == ("a", "b")
