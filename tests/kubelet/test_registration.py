"""Staying registered: what the kubelet does to us, and how we come back each time."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.services import running
from hamid.kubelet import v1beta1
from hamid.kubelet.errors import DirectoryGone
from hamid.kubelet.fake import FakeFeatures, FakeKubelet
from hamid.kubelet.grpc_unix import UnixServer
from hamid.kubelet.metrics import KubeletMetrics
from hamid.kubelet.registration import Registrar
from tests.kubelet.plugin import RESOURCE, make_plugin, make_registrar

BY_NAME = FakeFeatures(keys_plugins_by_socket=False)


def registrations(registry, outcome):
    name = "hamid_kubelet_registrations_total"
    return registry.get_sample_value(name, {"outcome": outcome}) or 0


async def registered(registrar, count=1):
    return await registrar.registration.wait_for(
        lambda now: now.is_registered and now.registered_count == count
    )


async def test_a_kubelet_that_is_there_gets_our_devices(short_path):
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)
            await kubelet.wait_for_allocatable(RESOURCE, 6)


async def test_a_kubelet_that_comes_later_is_waited_for(short_path, assert_logged):
    kubelet = FakeKubelet(short_path)
    registrar = make_registrar(kubelet)
    await registrar.step()

    assert "no kubelet at" in registrar.registration.get().reason
    assert_logged("not registered with the kubelet", log_level="warning")
    async with kubelet, running(registrar):
        await registered(registrar)


@pytest.fixture
def gone(short_path):
    """A folder that was removed, as a container goes on seeing it that has it mounted."""
    folder = short_path / "gone"
    folder.mkdir()
    opened = os.open(folder, os.O_RDONLY)
    folder.rmdir()
    yield Path(f"/proc/self/fd/{opened}")
    os.close(opened)


async def test_in_a_folder_that_was_removed_no_kubelet_is_waited_for(short_path, gone):
    registrar = make_registrar(FakeKubelet(short_path), directory=gone)

    with pytest.raises(DirectoryGone):
        await registrar.step()


async def test_a_kubelet_that_holds_our_stream_is_kept_when_the_folder_is_removed(short_path, gone):
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)
            registrar.directory = gone
            await registrar.step()

            assert registrar.registration.get().is_registered


async def test_an_absence_is_logged_once(short_path, logs):
    registrar = make_registrar(FakeKubelet(short_path))
    for _ in range(3):
        await registrar.step()

    assert [entry["event"] for entry in logs] == ["not registered with the kubelet"]


async def test_stopping_takes_our_socket_away(short_path):
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)

        left = [path.name for path in kubelet.device_plugin_directory.glob("*.sock")]
        assert left == ["kubelet.sock"]
        await kubelet.wait_for_allocatable(RESOURCE, 0)


async def test_sockets_of_a_killed_daemon_are_removed_and_nobody_elses(short_path):
    async with FakeKubelet(short_path) as kubelet:
        stale = kubelet.device_plugin_directory / "hamid-0badcafe.sock"
        other = kubelet.device_plugin_directory / "nvidia-gpu.sock"
        for path in (stale, other):
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)

            assert not stale.exists()
            assert other.exists()


async def test_a_socket_that_stays_keeps_nobody_from_registering(short_path, assert_logged):
    async with FakeKubelet(short_path) as kubelet:
        stays = kubelet.device_plugin_directory / "hamid-0badcafe.sock"
        stays.mkdir()  # which no unlink removes
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)

    assert_logged("stale socket stays", socket=str(stays))


@pytest.mark.parametrize("features", [FakeFeatures(), BY_NAME], ids=["1.37", "before 1.37"])
async def test_a_restarted_kubelet_is_registered_with_again(short_path, features):
    async with FakeKubelet(short_path, features=features) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)
            await kubelet.restart()

            await registered(registrar, 2)
            await kubelet.wait_for_allocatable(RESOURCE, 6)


@pytest.mark.parametrize("features", [FakeFeatures(), BY_NAME], ids=["1.37", "before 1.37"])
async def test_a_lost_stream_is_registered_again(short_path, features):
    async with FakeKubelet(short_path, features=features) as kubelet:
        registrar = make_registrar(kubelet, poll_s=60.0)  # noticed at once, not at the next poll
        async with running(registrar):
            await registered(registrar)
            kubelet.plugins.drop_streams()

            await registered(registrar, 2)
            await kubelet.wait_for_allocatable(RESOURCE, 6)


async def test_a_removed_socket_of_ours_is_made_anew(short_path):
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)
            for path in kubelet.device_plugin_directory.glob("hamid-*.sock"):
                path.unlink()

            await registered(registrar, 2)
            await kubelet.wait_for_allocatable(RESOURCE, 6)


async def test_each_registration_has_a_socket_of_its_own(short_path):
    names = set()
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            for count in (1, 2, 3):
                await registered(registrar, count)
                names.update(p.name for p in kubelet.device_plugin_directory.glob("hamid-*"))
                kubelet.plugins.drop_streams()

    assert len(names) == 3


async def test_an_old_daemons_end_does_not_keep_the_new_one_out(short_path):
    # A kubelet before 1.37 disconnects the new plugin when the old one's stream ends.
    async with FakeKubelet(short_path, features=BY_NAME) as kubelet:
        old = make_registrar(kubelet, make_plugin(3), socket_prefix="old")
        new = make_registrar(kubelet, make_plugin(5), socket_prefix="new")
        async with running(old):
            await registered(old)
            task = running(new)
            await task.__aenter__()
            await registered(new)
            await kubelet.wait_for_allocatable(RESOURCE, 5)
        try:
            await registered(new, 2)
            await kubelet.wait_for_allocatable(RESOURCE, 5)
        finally:
            await task.__aexit__(None, None, None)


async def test_a_refusal_is_said_and_tried_again_after_a_delay(short_path, assert_logged):
    registry = CollectorRegistry()
    async with FakeKubelet(short_path) as kubelet:
        kubelet.registration_refusal = "the ResourceName is invalid"
        registrar = make_registrar(
            kubelet,
            metrics=KubeletMetrics(registry),
            backoff=Backoff(first_s=1000.0, max_s=1000.0),
        )
        await registrar.step()
        await registrar.step()

        assert "the ResourceName is invalid" in registrar.registration.get().reason
        assert registrations(registry, "failed") == 1
        assert_logged("not registered with the kubelet", failures=1)


async def test_a_kubelet_that_restarts_is_not_made_to_wait_for_an_old_delay(short_path):
    registry = CollectorRegistry()
    async with FakeKubelet(short_path) as kubelet:
        kubelet.registration_refusal = "not now"
        registrar = make_registrar(
            kubelet,
            metrics=KubeletMetrics(registry),
            backoff=Backoff(first_s=1000.0, max_s=1000.0),
        )
        async with running(registrar):
            await registrar.registration.wait_for(lambda now: "not now" in now.reason)
            kubelet.registration_refusal = None
            await kubelet.restart()

            await registered(registrar)
            assert registrations(registry, "registered") == 1


async def test_a_kubelet_that_never_opens_a_stream_is_asked_again(short_path):
    async with FakeKubelet(short_path) as kubelet:
        kubelet.plugins.opens_streams = False
        registrar = make_registrar(kubelet, stream_wait_s=0.02)
        async with running(registrar):
            await registrar.registration.wait_for(lambda now: now.registered_count == 2)
            assert not registrar.registration.get().is_registered

            kubelet.plugins.opens_streams = True
            await registrar.registration.wait_for(lambda now: now.is_registered)


async def test_a_short_lived_stream_costs_a_delay_and_a_stable_one_does_not(short_path):
    async with FakeKubelet(short_path) as kubelet:
        slow = Backoff(first_s=1000.0, max_s=1000.0)
        registrar = make_registrar(kubelet, backoff=slow, stream_wait_s=0.0)
        async with running(registrar):
            await registered(registrar)
            kubelet.plugins.drop_streams()
            await registered(registrar, 2)

            registrar.stream_wait_s = 1000.0
            kubelet.plugins.drop_streams()
            await registrar.registration.wait_for(lambda now: not now.is_registered)

            assert slow.failures == 1


async def test_a_kubelet_whose_socket_answers_nothing_is_retried(short_path):
    kubelet = FakeKubelet(short_path)
    kubelet.device_plugin_directory.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(kubelet.kubelet_socket))  # bound, not listening: connections are refused
    registrar = make_registrar(kubelet)
    async with running(registrar):
        await registrar.registration.wait_for(lambda now: "is not reachable" in now.reason)
        async with kubelet:
            await registered(registrar)


async def test_a_kubelet_gone_for_good_leaves_no_stream_behind(short_path):
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet)
        async with running(registrar):
            await registered(registrar)
            await kubelet.stop()
            kubelet.kubelet_socket.unlink()

            await registrar.registration.wait_for(lambda now: "no kubelet at" in now.reason)


async def test_a_device_change_reaches_the_kubelet_after_any_number_of_restarts(short_path):
    plugin = make_plugin(2)
    async with FakeKubelet(short_path) as kubelet:
        registrar = make_registrar(kubelet, plugin)
        async with running(registrar):
            for count in (1, 2, 3):
                await registered(registrar, count)
                await kubelet.restart()
            await registered(registrar, 4)
            plugin.devices.publish(make_plugin(9).devices.get())

            await kubelet.wait_for_allocatable(RESOURCE, 9)


class StuckKubelet(v1beta1.RegistrationBase):
    """Takes a registration and never answers."""

    def __init__(self):
        self.was_called = asyncio.Event()

    async def register(self, message):  # noqa: ARG002 - the signature of the service
        self.was_called.set()
        await asyncio.Event().wait()


async def test_cancelling_while_the_kubelet_is_slow_leaves_nothing_open(short_path):
    stuck = StuckKubelet()
    server = await UnixServer.open(short_path / "kubelet.sock", [stuck])
    registrar = Registrar(handler=make_plugin(), resource_name=RESOURCE, directory=short_path)
    async with running(registrar):
        await stuck.was_called.wait()
        assert list(short_path.glob("hamid-*"))

    assert not list(short_path.glob("hamid-*"))
    await server.close()
