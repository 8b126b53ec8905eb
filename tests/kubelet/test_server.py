"""The device plugin's server: deadlines, words for failures, streams that are counted."""

from __future__ import annotations

import asyncio
import stat
from contextlib import asynccontextmanager

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from prometheus_client import CollectorRegistry

from hamid.kubelet import v1beta1
from hamid.kubelet.errors import CannotListen
from hamid.kubelet.messages import (
    decode_devices,
    encode_allocate_request,
    encode_preferred_request,
)
from hamid.kubelet.metrics import KubeletMetrics
from hamid.kubelet.port import AdvertisedDevice, PreferredRequest
from hamid.kubelet.server import CallDeadlines, DevicePluginServer, Streams
from tests.contracts.kubelet_contract import make_slots, refusal
from tests.kubelet.plugin import make_plugin


@asynccontextmanager
async def served(path, plugin, **overrides):
    """The server and the kubelet's side of a connection to it."""
    server = DevicePluginServer(path=path / "p.sock", handler=plugin, **overrides)
    await server.open()
    channel = Channel(path=str(server.path))
    try:
        yield server, v1beta1.DevicePluginStub(channel)
    finally:
        channel.close()
        await server.close()


async def never():
    await asyncio.Event().wait()


async def test_the_socket_is_roots_alone_and_goes_with_the_server(short_path):
    async with served(short_path, make_plugin()) as (server, _):
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o600

    assert not server.path.exists()


async def test_a_socket_that_cannot_be_made_says_where(short_path):
    server = DevicePluginServer(path=short_path / "none" / "p.sock", handler=make_plugin())

    with pytest.raises(CannotListen, match=r"none/p\.sock"):
        await server.open()


async def test_a_path_that_is_too_long_says_so(short_path):
    server = DevicePluginServer(path=short_path / ("x" * 120), handler=make_plugin())

    with pytest.raises(CannotListen, match="too long"):
        await server.open()


async def test_both_optional_calls_are_asked_for(short_path):
    async with served(short_path, make_plugin()) as (_, kubelet):
        options = await kubelet.get_device_plugin_options(v1beta1.Empty())

    assert options.pre_start_required
    assert options.get_preferred_allocation_available


async def test_the_stream_brings_the_list_and_then_each_change(short_path):
    plugin = make_plugin(2)
    async with served(short_path, plugin) as (_, kubelet):
        stream = kubelet.list_and_watch(v1beta1.Empty())
        first = decode_devices(await anext(stream))
        plugin.devices.publish((AdvertisedDevice(slot_id="other", numa_nodes=(1,)),))
        second = decode_devices(await anext(stream))
        await stream.aclose()

    assert first == make_slots(2)
    assert second == (AdvertisedDevice(slot_id="other", numa_nodes=(1,)),)


async def test_streams_are_counted_as_they_open_and_end(short_path):
    async with served(short_path, make_plugin()) as (server, kubelet):
        stream = kubelet.list_and_watch(v1beta1.Empty())
        await anext(stream)
        assert server.streams.get() == Streams(open_count=1, ended_count=0)

        await stream.aclose()
        await server.streams.wait_for(lambda now: not now.open_count)

        assert server.streams.get() == Streams(open_count=0, ended_count=1)


async def test_closing_the_server_ends_the_kubelets_stream(short_path):
    async with served(short_path, make_plugin()) as (server, kubelet):
        stream = kubelet.list_and_watch(v1beta1.Empty())
        await anext(stream)

        await server.close()

        with pytest.raises(Exception, match="lost"):
            await anext(stream)


async def test_a_list_too_large_for_the_kubelet_is_said_aloud(short_path, assert_logged):
    plugin = make_plugin()
    plugin.devices.publish((AdvertisedDevice(slot_id="x" * 5_000_000),))
    async with served(short_path, plugin) as (_, kubelet):
        with pytest.raises(GRPCError, match="device-split-count") as caught:
            await anext(kubelet.list_and_watch(v1beta1.Empty()))

    assert caught.value.status is Status.RESOURCE_EXHAUSTED
    assert_logged("device list refused")


@pytest.mark.parametrize(
    ("act", "script"),
    [
        (lambda k: k.allocate(encode_allocate_request(("slot-1",))), "allocate"),
        (
            lambda k: k.pre_start_container(
                v1beta1.PreStartContainerRequest(devices_ids=["slot-1"])
            ),
            "pre_start",
        ),
        (
            lambda k: k.get_preferred_allocation(
                encode_preferred_request(PreferredRequest(available=("slot-1",), size=1))
            ),
            "preferred",
        ),
    ],
    ids=["Allocate", "PreStartContainer", "GetPreferredAllocation"],
)
async def test_a_refusal_reaches_the_kubelet_with_message_and_hint(short_path, act, script):
    plugin = make_plugin(refusals={script: [refusal("zu wenig Speicher: größer", "do this")]})
    async with served(short_path, plugin) as (_, kubelet):
        with pytest.raises(GRPCError) as caught:
            await act(kubelet)

    assert caught.value.status is Status.FAILED_PRECONDITION
    assert caught.value.message == "zu wenig Speicher: größer (do this)"


async def test_a_fault_of_ours_names_itself_and_the_log(short_path, assert_logged):
    plugin = make_plugin(refusals={"allocate": [ZeroDivisionError("oops")]})
    async with served(short_path, plugin) as (_, kubelet):
        with pytest.raises(GRPCError, match="ZeroDivisionError: oops") as caught:
            await kubelet.allocate(encode_allocate_request(("slot-1",)))

    assert caught.value.status is Status.INTERNAL
    assert_logged("kubelet call failed", call="Allocate")


async def test_an_answer_that_does_not_come_ends_in_time(short_path, assert_logged):
    plugin = make_plugin(during_allocate=never)
    deadlines = CallDeadlines(allocate_s=0.01)
    async with served(short_path, plugin, deadlines=deadlines) as (_, kubelet):
        with pytest.raises(GRPCError, match=r"no answer to Allocate within 0\.01 s") as caught:
            await kubelet.allocate(encode_allocate_request(("slot-1",)))

    assert caught.value.status is Status.DEADLINE_EXCEEDED
    assert_logged("kubelet call was late", call="Allocate")


async def test_calls_are_timed_by_outcome(short_path):
    registry = CollectorRegistry()
    plugin = make_plugin(refusals={"allocate": [refusal()]})
    async with served(short_path, plugin, metrics=KubeletMetrics(registry)) as (_, kubelet):
        with pytest.raises(GRPCError):
            await kubelet.allocate(encode_allocate_request(("slot-1",)))
        await kubelet.allocate(encode_allocate_request(("slot-1",)))

    counts = {
        outcome: registry.get_sample_value(
            "hamid_kubelet_call_seconds_count", {"call": "Allocate", "outcome": outcome}
        )
        for outcome in ("ok", "refused")
    }
    assert counts == {"ok": 1, "refused": 1}


async def test_a_request_for_several_containers_gets_as_many_answers(short_path):
    request = v1beta1.AllocateRequest(
        container_requests=[
            v1beta1.ContainerAllocateRequest(devices_ids=["slot-1"]),
            v1beta1.ContainerAllocateRequest(devices_ids=["slot-2"]),
        ]
    )
    async with served(short_path, make_plugin()) as (_, kubelet):
        response = await kubelet.allocate(request)

    assert [one.envs["SLOTS"] for one in response.container_responses] == ["slot-1", "slot-2"]
