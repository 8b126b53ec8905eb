"""The fake kubelet itself: sockets, admission, starts, ends, restart. The charter is the package's."""

from __future__ import annotations

import asyncio
import random
import stat
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from hamid.aiokit.latest import Latest
from hamid.aiokit.services import Background
from hamid.kubelet.constants import (
    CHECKPOINT_NAME,
    DIAL_BACK_TIMEOUT_S,
    KUBELET_SOCKET_NAME,
    PRE_START_TIMEOUT_S,
)
from hamid.kubelet.fake.books import AllocationRefused, Capacity, DeviceBooks, decode_response
from hamid.kubelet.fake.devices import DeviceManager
from hamid.kubelet.fake.plugins import Plugins
from hamid.kubelet.fake.pods import (
    ContainerState,
    FakeContainerStatus,
    FakePodStatus,
    Phase,
)
from hamid.kubelet.fake.services import (
    GetSupport,
    PodResourcesService,
    PodsService,
    RegistrationService,
)
from hamid.kubelet.grpc_unix import UnixServer
from hamid.kubelet.messages import decode_grant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hamid.kubelet.fake.pods import (
        FakePod,
    )
    from hamid.kubelet.port import AdvertisedDevice, ContainerGrant

_DIRECTORY_MODE: Final = 0o750
_CHECKPOINT_MODE: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeFeatures:
    """What this kubelet has; the defaults are 1.37's.

    Attributes:
        has_pod_resources: serves pod resources at all (on since 1.15, v1 since 1.20).
        get_support: of pod resources' Get.
        has_pods_api: serves the Pods API (on since 1.37).
        takes_cdi_devices: reads the CDI names of a grant (since 1.28); else they are dropped.
        keys_plugins_by_socket: since 1.37; before, the end of an old stream disconnects the new.
        readmits_finished_init: after a restart, a pod is rejected whose plain init container had
            devices and has ended (kubernetes/kubernetes#138446).
    """

    has_pod_resources: bool = True
    get_support: GetSupport = GetSupport.SERVED
    has_pods_api: bool = True
    takes_cdi_devices: bool = True
    keys_plugins_by_socket: bool = True
    readmits_finished_init: bool = False
    dial_timeout_s: float = DIAL_BACK_TIMEOUT_S
    pre_start_timeout_s: float = PRE_START_TIMEOUT_S


class FakeKubelet:
    """A kubelet over `root`: open it as a context, then admit pods.

    Args:
        root: stands for /var/lib/kubelet; keep the path short, unix sockets live in it.
        seed: decides every arbitrary order and choice.
        features: what this kubelet has and lacks.

    Attributes:
        capacities: each resource as the node's status would show it.
        statuses: the pods' statuses by UID.
        calls: every call made to plugins so far.
        registration_refusal: set it, and Register is answered with this error.
    """

    def __init__(self, root: Path, *, seed: int = 0, features: FakeFeatures | None = None) -> None:
        self.features = features or FakeFeatures()
        self.device_plugin_directory = root / "device-plugins"
        self.kubelet_socket = self.device_plugin_directory / KUBELET_SOCKET_NAME
        self.checkpoint_path = self.device_plugin_directory / CHECKPOINT_NAME
        self.pod_resources_socket = root / "pod-resources" / KUBELET_SOCKET_NAME
        self.pods_api_socket = root / "pods-api" / "pods-api.sock"
        self.books = DeviceBooks(rng=random.Random(seed))  # noqa: S311 - no secret
        self.capacities: Latest[Mapping[str, Capacity]] = Latest({})
        self.statuses: dict[str, FakePodStatus] = {}
        self.registration_refusal: str | None = None
        self._pods: dict[str, FakePod] = {}
        self._background = Background()
        self.plugins = Plugins(
            background=self._background,
            on_devices=self._devices_came,
            on_gone=self._plugin_went,
            dial_timeout_s=self.features.dial_timeout_s,
            is_keyed_by_socket=self.features.keys_plugins_by_socket,
        )
        self.devices = DeviceManager(
            books=self.books,
            plugins=self.plugins,
            active_uids=lambda: [pod.uid for pod in self.active_pods()],
            on_recorded=self._write_checkpoint,
            pre_start_timeout_s=self.features.pre_start_timeout_s,
        )
        self.calls = self.devices.calls
        self._servers: list[UnixServer] = []
        self._stack = AsyncExitStack()
        # Admissions are one after another, as in the kubelet's sync loop.
        self._admission = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._background)
        self._stack.push_async_callback(self.stop)
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.__aexit__(*exc_info)  # type: ignore[arg-type]  # passed on unchanged

    # --- the kubelet's own life

    async def start(self) -> None:
        """Delete the sockets, read the checkpoint, serve, and admit the pods of the node again."""
        directory = self.device_plugin_directory
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        for path in directory.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        if self.checkpoint_path.exists():
            self.books.restore(self.checkpoint_path.read_bytes())
        self._publish_capacities()
        await self._serve(
            self.kubelet_socket,
            RegistrationService(
                directory=directory,
                plugins=self.plugins,
                refusal=lambda: self.registration_refusal,
            ),
        )
        if self.features.has_pod_resources:
            service = PodResourcesService(
                books=self.books,
                known_pods=self._pods.values,
                active_pods=self.active_pods,
                get_support=self.features.get_support,
            )
            await self._serve(self.pod_resources_socket, service)
        if self.features.has_pods_api:
            await self._serve(self.pods_api_socket, PodsService(known_pods=self._pods.values))
        for pod in self.active_pods():
            self._admit_again(pod)

    async def stop(self) -> None:
        """End as on SIGTERM: connections drop, the socket files stay."""
        self.plugins.close()
        servers, self._servers = self._servers, []
        for server in servers:
            await server.close()

    async def restart(self) -> None:
        """Stop and start: a new socket, plugins forgotten, allocations from the checkpoint."""
        await self.stop()
        await self.start()

    async def _serve(self, path: Path, service: object) -> None:
        path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        self._servers.append(await UnixServer.open(path, [service]))

    # --- pods

    def active_pods(self) -> tuple[FakePod, ...]:
        """Return the pods that have not ended, in the order of their coming."""
        return tuple(p for uid, p in self._pods.items() if not self.statuses[uid].is_terminal)

    async def admit(self, pod: FakePod) -> FakePodStatus:
        """Take a pod in: allocate for each of its containers, in the order of their starts.

        One pod after another; the pod is known from the moment its turn comes. A refusal fails
        it for good.
        """
        async with self._admission:
            self._pods[pod.uid] = pod
            waiting = {container.name: FakeContainerStatus() for container in pod.containers}
            self.statuses[pod.uid] = FakePodStatus(containers=waiting)
            reusable: dict[str, set[str]] = {}
            try:
                for container in pod.in_start_order:
                    await self.devices.allocate(pod, container, reusable)
            except AllocationRefused as error:
                self._reject(pod, str(error))
            return self.statuses[pod.uid]

    async def start_container(self, pod_uid: str, container_name: str) -> FakePodStatus:
        """Start a container, for the first time or again; only PreStartContainer is called."""
        pod = self._pods[pod_uid]
        container = pod.container(container_name)
        before = self.statuses[pod_uid].containers[container_name]
        try:
            await self.devices.pre_start(pod, container)
        except AllocationRefused as error:
            now = replace(before, state=ContainerState.CONFIG_ERROR, message=str(error))
        else:
            ends = container.is_init and not container.is_sidecar
            now = FakeContainerStatus(
                state=ContainerState.COMPLETED if ends else ContainerState.RUNNING,
                start_count=before.start_count + 1,
            )
        return self._set_container(pod, container_name, now)

    async def start_pod(self, pod_uid: str) -> FakePodStatus:
        """Start what does not run yet, in order; an init container that fails stops the rest."""
        pod = self._pods[pod_uid]
        for container in pod.in_start_order:
            status = self.statuses[pod_uid]
            if status.is_terminal:
                break
            if status.containers[container.name].start_count:
                continue
            status = await self.start_container(pod_uid, container.name)
            is_first = container.is_init or container.is_sidecar
            if is_first and not status.containers[container.name].start_count:
                break
        return self.statuses[pod_uid]

    async def run_pod(self, pod: FakePod) -> FakePodStatus:
        """Admit a pod and start its containers."""
        status = await self.admit(pod)
        return status if status.is_terminal else await self.start_pod(pod.uid)

    def finish(self, pod_uid: str, phase: Phase = Phase.SUCCEEDED) -> None:
        """End a pod; its devices are free when the kubelet next looks."""
        self.statuses[pod_uid] = replace(self.statuses[pod_uid], phase=phase)

    def remove(self, pod_uid: str) -> None:
        """Forget a pod: it was deleted."""
        del self._pods[pod_uid], self.statuses[pod_uid]

    def grant(self, pod_uid: str, container_name: str) -> ContainerGrant | None:
        """Return what the container was given; None when it holds nothing."""
        for entry in self.books.held_by(pod_uid, container_name):
            grant = decode_grant(decode_response(entry))
            return grant if self.features.takes_cdi_devices else replace(grant, cdi_devices=())
        return None

    def slot_ids(self, pod_uid: str, container_name: str) -> tuple[str, ...]:
        """Return the ids that the container holds."""
        held = self.books.held_by(pod_uid, container_name)
        return tuple(slot_id for entry in held for slot_id in entry.slot_ids)

    async def wait_for_allocatable(self, resource_name: str, count: int) -> None:
        """Wait until the resource has that many healthy devices."""
        nothing = Capacity(capacity=0, allocatable=0)
        await self.capacities.wait_for(
            lambda now: now.get(resource_name, nothing).allocatable == count
        )

    # --- inside

    def _admit_again(self, pod: FakePod) -> None:
        """Admit a pod after a restart: what runs stays, what does not finds no plugin yet."""
        for container in pod.in_start_order:
            status = self.statuses[pod.uid].containers[container.name]
            is_over = status.state is ContainerState.COMPLETED
            if not container.count or status.state is ContainerState.RUNNING:
                continue
            if is_over and not self.features.readmits_finished_init:
                continue
            key = (pod.uid, container.name, container.resource_name)
            try:
                self.books.begin(key, required=container.count, reusable=())
            except AllocationRefused as error:
                self._reject(pod, str(error))
                return

    def _reject(self, pod: FakePod, reason: str) -> None:
        self.statuses[pod.uid] = replace(
            self.statuses[pod.uid],
            phase=Phase.FAILED,
            reason="UnexpectedAdmissionError",
            message=f"Allocate failed due to {reason}, which is unexpected",
        )

    def _set_container(
        self, pod: FakePod, name: str, container: FakeContainerStatus
    ) -> FakePodStatus:
        status = self.statuses[pod.uid]
        containers = {**status.containers, name: container}
        is_running = all(c.start_count for c in containers.values())
        phase = status.phase if status.is_terminal else Phase.PENDING
        if is_running and not status.is_terminal:
            phase = Phase.RUNNING
        now = self.statuses[pod.uid] = replace(status, containers=containers, phase=phase)
        return now

    def _devices_came(self, resource_name: str, devices: tuple[AdvertisedDevice, ...]) -> None:
        self.books.replace_devices(resource_name, devices)
        self._write_checkpoint()
        self._publish_capacities()

    def _plugin_went(self, resource_name: str) -> None:
        self.books.mark_unhealthy(resource_name)
        self._publish_capacities()

    def _publish_capacities(self) -> None:
        self.capacities.publish({name: self.books.capacity(name) for name in self.books.devices})

    def _write_checkpoint(self) -> None:
        fresh = self.checkpoint_path.with_name(f".{CHECKPOINT_NAME}.new")
        fresh.write_bytes(self.books.encode_checkpoint())
        fresh.chmod(_CHECKPOINT_MODE)
        fresh.replace(self.checkpoint_path)
