"""Client of the kubelet's pod resources API: which container holds which of our slots.

The kubelet answers a hundred calls a second in all, from every client of the node; a call that it
turns away for that is tried again within the deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from hamid.kubelet import podresources_v1
from hamid.kubelet.constants import POD_RESOURCES_SOCKET
from hamid.kubelet.errors import NotServed
from hamid.kubelet.grpc_unix import UnixClient, socket_identity
from hamid.kubelet.port import ContainerDevices, PodDevices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from grpclib.client import Channel

    from hamid.kubelet.grpc_unix import SocketIdentity

log = structlog.get_logger(__name__)

T = TypeVar("T")

_RATE_LIMIT_PAUSE_S: Final = 0.02
"""Two calls' worth of the kubelet's rate limit."""


class PodResourcesClient:
    """`PodResourcesPort` over the kubelet's socket, for one resource name."""

    def __init__(
        self,
        *,
        resource_name: str,
        socket_path: Path = POD_RESOURCES_SOCKET,
        timeout_s: float = 2.0,
    ) -> None:
        self._resource_name = resource_name
        self._client = UnixClient(
            socket_path, peer="the kubelet's pod resources API", timeout_s=timeout_s
        )
        self._refusing: SocketIdentity | None = None

    @property
    def can_get(self) -> bool:
        """Whether the kubelet answers for a single pod; true until this one was seen to refuse."""
        return self._refusing is None or socket_identity(self._client.path) != self._refusing

    async def list(self) -> tuple[PodDevices, ...]:
        """Return all active pods. Makes the kubelet recompute its books: not inside Allocate."""
        response = await self._call("list pod resources", _list)
        return tuple(self._pod(pod) for pod in response.pod_resources)

    async def get(self, namespace: str, name: str) -> PodDevices | None:
        """Return one pod, or None when the kubelet does not know it."""
        if self.can_get:
            try:
                return await self._get(namespace, name)
            except NotServed:
                self._refusing = socket_identity(self._client.path)
                log.debug("pod resources lack get")
        pods = await self.list()
        return next((pod for pod in pods if (pod.namespace, pod.name) == (namespace, name)), None)

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    async def _get(self, namespace: str, name: str) -> PodDevices | None:
        async def act(channel: Channel) -> podresources_v1.GetPodResourcesResponse | None:
            request = podresources_v1.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
            try:
                return await podresources_v1.PodResourcesListerStub(channel).get(request)
            except GRPCError as error:
                if _says_unknown_pod(error):
                    return None
                if _says_disabled(error):
                    raise GRPCError(Status.UNIMPLEMENTED, error.message) from error
                raise

        response = await self._call(f"get pod resources of {namespace}/{name}", act)
        if response is None or response.pod_resources is None:
            return None
        return self._pod(response.pod_resources)

    async def _call(self, what: str, act: Callable[[Channel], Awaitable[T]]) -> T:
        async def patiently(channel: Channel) -> T:
            while True:
                try:
                    return await act(channel)
                except GRPCError as error:
                    if error.status is not Status.RESOURCE_EXHAUSTED:
                        raise
                    await asyncio.sleep(_RATE_LIMIT_PAUSE_S)

        return await self._client.call(what, patiently)

    def _pod(self, pod: podresources_v1.PodResources) -> PodDevices:
        containers = tuple(
            ContainerDevices(container_name=container.name, slot_ids=self._slot_ids(container))
            for container in pod.containers
        )
        return PodDevices(namespace=pod.namespace, name=pod.name, containers=containers)

    def _slot_ids(self, container: podresources_v1.ContainerResources) -> tuple[str, ...]:
        # The kubelet has an entry per id, and one per NUMA node of an id, each time in another order.
        ids = (
            slot_id
            for entry in container.devices
            if entry.resource_name == self._resource_name
            for slot_id in entry.device_ids
        )
        return tuple(sorted(set(ids)))


async def _list(channel: Channel) -> podresources_v1.ListPodResourcesResponse:
    stub = podresources_v1.PodResourcesListerStub(channel)
    return await stub.list(podresources_v1.ListPodResourcesRequest())


def _says_unknown_pod(error: GRPCError) -> bool:
    # The kubelet up to 1.37 has no status for it but UNKNOWN: "pod X in namespace Y not found".
    if error.status is Status.NOT_FOUND:
        return True
    return error.status is Status.UNKNOWN and (error.message or "").endswith("not found")


def _says_disabled(error: GRPCError) -> bool:
    # 1.27 to 1.33 know the call, have it off by default, and say so in words only.
    return error.status is Status.UNKNOWN and "method disabled" in (error.message or "")
