"""What hamid relies on of a kubelet: run on the fake and on a real one.

A subclass gives a fixture `world` (see `KubeletWorld`). The suite uses the real registrar, server
and clients on the world's sockets, and a plugin that follows a script.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pytest

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import running
from hamid.aiokit.ticker import every
from hamid.errors import HamidError
from hamid.kubelet import v1beta1
from hamid.kubelet.checkpoint import read_checkpoint
from hamid.kubelet.errors import CallFailed
from hamid.kubelet.fake import FakeContainer, FakePod, Phase
from hamid.kubelet.grpc_unix import UnixClient
from hamid.kubelet.pod_resources import PodResourcesClient
from hamid.kubelet.pods_api import PodsApiClient
from hamid.kubelet.port import (
    AdvertisedDevice,
    ContainerDevices,
    ContainerGrant,
)
from hamid.kubelet.registration import Registrar
from hamid.kubelet.server import DevicePluginServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from hamid.kubelet.port import (
        PodDevices,
        PreferredRequest,
    )

SLOT_COUNT = 6


class KubeletWorld(Protocol):
    """A kubelet under test, and the little that is done to it."""

    resource_name: str
    device_plugin_directory: Path
    checkpoint_path: Path
    pod_resources_socket: Path
    pods_api_socket: Path

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Have the kubelet run for as long as the block lasts; leave no pod of the test."""
        ...

    async def create(self, pod: FakePod) -> str:
        """Have the kubelet run the pod, and return its UID (the pod's own is a wish)."""
        ...

    async def wait_for_phase(self, pod: FakePod, phase: Phase) -> tuple[str, str]:
        """Wait for the phase, and return the status' reason and message."""
        ...

    async def wait_for_allocatable(self, count: int) -> None:
        """Wait until the node has that many slots to give."""
        ...

    async def restart(self) -> None:
        """Stop the kubelet and start it again."""
        ...


@dataclass(slots=True, kw_only=True)
class ScriptedPlugin:
    """A handler that does as told, and writes down what the kubelet called."""

    devices: Latest[tuple[AdvertisedDevice, ...]]
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    preferred_requests: list[PreferredRequest] = field(default_factory=list)
    preference: tuple[str, ...] = ()
    refusals: dict[str, list[HamidError]] = field(default_factory=dict)
    during_allocate: Callable[[], Awaitable[None]] | None = None
    registrar: Registrar = field(init=False)

    async def preferred_allocation(self, request: PreferredRequest) -> tuple[str, ...]:
        self.preferred_requests.append(request)
        self._note("preferred", request.available)
        return self.preference

    async def allocate(self, slot_ids: tuple[str, ...]) -> ContainerGrant:
        self._note("allocate", slot_ids)
        if self.during_allocate is not None:
            await self.during_allocate()
        return ContainerGrant(envs={"SLOTS": ",".join(sorted(slot_ids))})

    async def pre_start(self, slot_ids: tuple[str, ...]) -> None:
        self._note("pre_start", slot_ids)

    def slots_of(self, call: str) -> list[tuple[str, ...]]:
        """The ids of every call of this name, each sorted."""
        return [slot_ids for name, slot_ids in self.calls if name == call]

    def _note(self, call: str, slot_ids: tuple[str, ...]) -> None:
        self.calls.append((call, tuple(sorted(slot_ids))))
        if self.refusals.get(call):
            raise self.refusals[call].pop(0)


def make_slots(count=SLOT_COUNT, *, sick=()):
    return tuple(
        AdvertisedDevice(slot_id=f"slot-{n}", is_healthy=n not in sick) for n in range(count)
    )


@asynccontextmanager
async def plugged(world: KubeletWorld) -> AsyncIterator[ScriptedPlugin]:
    """A scripted plugin, registered with the world's kubelet."""
    plugin = ScriptedPlugin(devices=Latest(make_slots()))
    registrar = plugin.registrar = Registrar(
        handler=plugin,
        resource_name=world.resource_name,
        directory=world.device_plugin_directory,
        socket_prefix="contract",
        poll_s=0.05,
    )
    async with world.opened(), running(registrar):
        await world.wait_for_allocatable(SLOT_COUNT)
        yield plugin


def make_pod(world, name, *containers, **overrides):
    values = {"name": name, "uid": f"uid-of-{name}", "containers": containers}
    return FakePod(**{**values, **overrides})


def make_container(world, name="main", count=1, **overrides):
    return FakeContainer(name=name, count=count, resource_name=world.resource_name, **overrides)


def refusal(message="no decision for this pod", hint="ask the scheduler"):
    return HamidError(message, hint=hint)


class KubeletContract:
    """The suite."""

    async def test_healthy_slots_are_allocatable_and_a_change_is_noticed(self, world):
        async with plugged(world) as plugin:
            plugin.devices.publish(make_slots(sick={1, 4}))

            await world.wait_for_allocatable(SLOT_COUNT - 2)

    async def test_the_preferred_slots_are_those_that_are_allocated(self, world):
        async with plugged(world) as plugin:
            plugin.preference = ("slot-4", "slot-2")
            pod = make_pod(world, "preferring", make_container(world, count=2))

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            [asked] = plugin.preferred_requests
            assert sorted(asked.available) == [f"slot-{n}" for n in range(SLOT_COUNT)]
            assert (asked.must_include, asked.size) == ((), 2)
            assert plugin.slots_of("allocate") == [("slot-2", "slot-4")]

    async def test_without_a_preference_any_free_slots_are_taken(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(world, "indifferent", make_container(world, count=3))

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            [slot_ids] = plugin.slots_of("allocate")
            assert len(set(slot_ids)) == 3

    async def test_all_containers_are_allocated_before_the_first_is_started(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(
                world, "two", make_container(world, "a"), make_container(world, "b", count=2)
            )

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            names = [name for name, _ in plugin.calls]
            assert names == ["preferred", "allocate"] * 2 + ["pre_start"] * 2
            assert sorted(map(len, plugin.slots_of("pre_start"))) == [1, 2]

    async def test_an_app_container_gets_the_slots_of_its_init_container_unasked(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(
                world,
                "with-init",
                make_container(world, "init", is_init=True),
                make_container(world, "main"),
            )

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            first, second = plugin.slots_of("allocate")
            assert first == second
            assert len(plugin.preferred_requests) == 1

    async def test_a_bigger_app_container_must_include_them(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(
                world,
                "growing",
                make_container(world, "init", is_init=True),
                make_container(world, "main", count=2),
            )

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            first, second = plugin.slots_of("allocate")
            assert plugin.preferred_requests[1].must_include == first
            assert set(first) < set(second)

    async def test_a_sidecar_keeps_its_slots_to_itself(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(
                world,
                "with-sidecar",
                make_container(world, "side", is_init=True, is_sidecar=True),
                make_container(world, "main"),
            )

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            first, second = plugin.slots_of("allocate")
            assert first != second

    @pytest.mark.parametrize("call", ["allocate", "preferred"])
    async def test_a_refused_call_fails_the_pod_with_our_words(self, world, call):
        async with plugged(world) as plugin:
            plugin.refusals[call] = [refusal()]
            pod = make_pod(world, f"refused-{call}", make_container(world))

            await world.create(pod)
            reason, message = await world.wait_for_phase(pod, Phase.FAILED)

            assert reason == "UnexpectedAdmissionError"
            assert "no decision for this pod (ask the scheduler)" in message
            assert plugin.slots_of("pre_start") == []

    async def test_a_refused_start_is_tried_again_without_another_allocate(self, world):
        async with plugged(world) as plugin:
            plugin.refusals["pre_start"] = [refusal()]
            pod = make_pod(world, "late", make_container(world))

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            assert len(plugin.slots_of("allocate")) == 1
            assert plugin.slots_of("pre_start") == plugin.slots_of("allocate") * 2

    async def test_pod_resources_tell_who_holds_what_but_omit_init_containers(self, world):
        async with plugged(world) as plugin, resources_of(world) as resources:
            pod = make_pod(
                world,
                "shown",
                make_container(world, "init", is_init=True),
                make_container(world, "main", count=2),
            )

            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)
            found = await resources.get(pod.namespace, pod.name)
            listed = await resources.list()

            assert found is not None
            [main] = found.containers
            assert main.container_name == "main"
            assert main.slot_ids == plugin.slots_of("allocate")[1]
            assert found in listed

    async def test_pod_resources_do_not_know_a_pod_that_is_not_there(self, world):
        async with plugged(world), resources_of(world) as resources:
            found = await resources.get("default", "nobody")

            assert found is None
            assert resources.can_get

    async def test_inside_allocate_the_pod_is_known_with_no_slots_yet(self, world):
        seen: list[PodDevices | None] = []
        async with plugged(world) as plugin, resources_of(world) as resources:
            pod = make_pod(world, "being-admitted", make_container(world))

            async def look() -> None:
                seen.append(await resources.get(pod.namespace, pod.name))

            plugin.during_allocate = look
            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)

            [found] = seen
            assert found is not None
            assert found.containers == (ContainerDevices(container_name="main", slot_ids=()),)

    async def test_inside_allocate_the_pods_api_knows_the_uid(self, world):
        seen = []
        async with plugged(world) as plugin:
            pods_api = PodsApiClient(socket_path=world.pods_api_socket)
            pod = make_pod(
                world, "annotated", make_container(world), annotations={"hamid.io/x": "ü"}
            )

            async def look() -> None:
                seen.extend(await pods_api.list_pods())

            plugin.during_allocate = look
            uid = await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)
            pods_api.close()

            [found] = [kubelet_pod for kubelet_pod in seen if kubelet_pod.name == pod.name]
            assert (found.namespace, found.uid) == (pod.namespace, uid)

    async def test_the_checkpoint_has_all_containers_by_uid(self, world):
        async with plugged(world) as plugin:
            pod = make_pod(
                world,
                "recorded",
                make_container(world, "init", is_init=True),
                make_container(world, "main", count=2),
            )

            uid = await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)
            entries = await read_checkpoint(world.checkpoint_path)

            held = {
                entry.container_name: tuple(sorted(entry.slot_ids))
                for entry in entries
                if (entry.pod_uid, entry.resource_name) == (uid, world.resource_name)
            }
            first, second = plugin.slots_of("allocate")
            assert held == {"init": first, "main": second}

    async def test_a_socket_name_cannot_be_registered_twice(self, world):
        # Why each of our registrations has a socket name of its own. Whether the kubelet ever lets
        # go of the name once its connection has ended is a race within it.
        name = "contract-twice.sock"
        plugin = ScriptedPlugin(devices=Latest(make_slots()))
        server = DevicePluginServer(path=world.device_plugin_directory / name, handler=plugin)
        async with world.opened():
            await server.open()
            await register(world, name)
            await server.streams.wait_for(lambda now: now.open_count == 1)
            with pytest.raises(CallFailed, match="already connected"):
                await register(world, name)

            await server.close()
            await world.restart()

    async def test_a_restarted_kubelet_gets_our_registration_and_calls_nothing(self, world):
        async with plugged(world) as plugin, resources_of(world) as resources:
            pod = make_pod(world, "surviving", make_container(world))
            await world.create(pod)
            await world.wait_for_phase(pod, Phase.RUNNING)
            before = await resources.get(pod.namespace, pod.name)
            calls = list(plugin.calls)

            await world.restart()
            await plugin.registrar.registration.wait_for(
                lambda now: now.is_registered and now.registered_count == 2
            )
            await world.wait_for_allocatable(SLOT_COUNT)
            after = await known_again(resources, pod)

            assert plugin.calls == calls
            assert after == before
            await world.wait_for_phase(pod, Phase.RUNNING)


async def register(world: KubeletWorld, socket_name: str) -> None:
    """Register once, as whoever does not know better, under a resource name of its own."""
    client = UnixClient(
        world.device_plugin_directory / "kubelet.sock", peer="the kubelet", timeout_s=12
    )
    request = v1beta1.RegisterRequest(
        version="v1beta1", endpoint=socket_name, resource_name="contract.example.com/twice"
    )
    try:
        await client.call("register", lambda c: v1beta1.RegistrationStub(c).register(request))
    finally:
        client.close()


async def known_again(resources: PodResourcesClient, pod: FakePod) -> PodDevices:
    """What the kubelet tells of the pod, once it has learnt of its pods again."""
    async with asyncio.timeout(20):
        async for _ in every(0.1):
            found = await resources.get(pod.namespace, pod.name)
            if found is not None:
                return found
    raise AssertionError


@asynccontextmanager
async def resources_of(world: KubeletWorld) -> AsyncIterator[PodResourcesClient]:
    client = PodResourcesClient(
        resource_name=world.resource_name, socket_path=world.pod_resources_socket
    )
    try:
        yield client
    finally:
        client.close()
