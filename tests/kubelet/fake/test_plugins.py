"""The fake kubelet's side of plugins: dial back, and both generations of bookkeeping."""

from __future__ import annotations

import pytest

from hamid.aiokit.services import running
from hamid.kubelet import v1beta1
from hamid.kubelet.errors import CallFailed
from hamid.kubelet.fake import FakeFeatures, FakeKubelet
from hamid.kubelet.grpc_unix import UnixClient
from hamid.kubelet.server import DevicePluginServer
from tests.kubelet.plugin import RESOURCE, make_plugin, make_registrar


async def register(kubelet, endpoint="p.sock", **overrides):
    request = v1beta1.RegisterRequest(
        **{"version": "v1beta1", "endpoint": endpoint, "resource_name": RESOURCE, **overrides}
    )
    client = UnixClient(kubelet.kubelet_socket, peer="the kubelet", timeout_s=5)
    try:
        await client.call("register", lambda c: v1beta1.RegistrationStub(c).register(request))
    finally:
        client.close()


async def test_registering_before_serving_runs_into_the_dial_timeout(short_path):
    async with FakeKubelet(short_path, features=FakeFeatures(dial_timeout_s=0.01)) as kubelet:
        with pytest.raises(CallFailed, match="failed to dial device plugin"):
            await register(kubelet)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"version": "v1alpha"}, "not supported by kubelet"),
        ({"resource_name": "gpu"}, "is invalid"),
        ({"resource_name": "kubernetes.io/gpu"}, "is invalid"),
        ({"resource_name": "requests.nvidia.com/gpu"}, "is invalid"),
    ],
)
async def test_version_and_name_are_looked_at(short_path, overrides, words):
    async with FakeKubelet(short_path) as kubelet:
        with pytest.raises(CallFailed, match=words):
            await register(kubelet, **overrides)


async def test_by_name_the_end_of_the_old_stream_disconnects_the_new_plugin(short_path):
    async with FakeKubelet(
        short_path, features=FakeFeatures(keys_plugins_by_socket=False)
    ) as kubelet:
        servers = [
            DevicePluginServer(
                path=kubelet.device_plugin_directory / f"{n}.sock", handler=make_plugin(n)
            )
            for n in (3, 5)
        ]
        for server in servers:
            await server.open()
            await register(kubelet, server.path.name)
            await server.streams.wait_for(lambda now: now.open_count == 1)

        await servers[0].close()

        await servers[1].streams.wait_for(lambda now: now.ended_count == 1)
        await kubelet.wait_for_allocatable(RESOURCE, 0)
        await servers[1].close()


async def test_by_socket_the_end_of_the_old_stream_leaves_the_new_one_alone(short_path):
    async with FakeKubelet(short_path) as kubelet:
        old = DevicePluginServer(
            path=kubelet.device_plugin_directory / "old.sock", handler=make_plugin(3)
        )
        await old.open()
        await register(kubelet, "old.sock")
        await kubelet.wait_for_allocatable(RESOURCE, 3)
        async with running(make_registrar(kubelet, make_plugin(5))):
            await kubelet.wait_for_allocatable(RESOURCE, 5)
            await old.close()

            assert kubelet.plugins.active[RESOURCE].path.name.startswith("hamid-")
            assert kubelet.capacities.get()[RESOURCE].allocatable == 5


async def test_a_plugin_left_over_takes_over_again(short_path):
    async with FakeKubelet(short_path) as kubelet:
        old = DevicePluginServer(
            path=kubelet.device_plugin_directory / "old.sock", handler=make_plugin(3)
        )
        await old.open()
        await register(kubelet, "old.sock")
        new = DevicePluginServer(
            path=kubelet.device_plugin_directory / "new.sock", handler=make_plugin(5)
        )
        await new.open()
        await register(kubelet, "new.sock")
        await kubelet.wait_for_allocatable(RESOURCE, 5)
        kubelet.plugins.lose("new.sock")

        assert kubelet.plugins.active[RESOURCE].path.name == "old.sock"
        for server in (old, new):
            await server.close()
