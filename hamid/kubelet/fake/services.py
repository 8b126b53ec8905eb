"""The gRPC services of the fake kubelet; each asks the kubelet and shapes the answer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from hamid.kubelet import podresources_v1, pods_v1alpha1, v1beta1
from hamid.kubelet.constants import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from hamid.kubelet.fake.books import DeviceBooks
    from hamid.kubelet.fake.plugins import Plugins
    from hamid.kubelet.fake.pods import FakePod

_RATE_PER_S: Final = 100.0
_BURST: Final = 10.0

_RESOURCE_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


class GetSupport(StrEnum):
    """How far a kubelet supports Get of pod resources."""

    SERVED = "served"
    """From 1.34."""
    DISABLED = "disabled"
    """1.27 to 1.33, by default."""
    UNIMPLEMENTED = "unimplemented"
    """Before 1.27."""


def _unknown(message: str) -> NoReturn:
    raise GRPCError(Status.UNKNOWN, message)


@dataclass(slots=True, kw_only=True)
class RegistrationService(v1beta1.RegistrationBase):
    """Registration: the version and the name are looked at, then the plugin is dialled back."""

    directory: Path
    plugins: Plugins
    refusal: Callable[[], str | None]

    async def register(self, message: v1beta1.RegisterRequest) -> v1beta1.Empty:
        """Connect to the plugin before answering, as the real one does."""
        refusal = self.refusal()
        if refusal is not None:
            _unknown(refusal)
        if message.version != API_VERSION:
            _unknown(
                f'requested API version "{message.version}" is not supported by kubelet.'
                f" Supported version is [{API_VERSION}]"
            )
        if not is_extended_resource_name(message.resource_name):
            _unknown(f'the ResourceName "{message.resource_name}" is invalid')
        await self.plugins.connect(message.resource_name, self.directory / message.endpoint)
        return v1beta1.Empty()


def is_extended_resource_name(name: str) -> bool:
    """Whether the kubelet takes the name: a domain of one's own, a slash, a name."""
    if name.startswith("requests.") or name.split("/", maxsplit=1)[0].endswith("kubernetes.io"):
        return False
    return _RESOURCE_NAME.fullmatch(name) is not None


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """A hundred calls a second, ten at once, for all callers together."""

    tokens: float = _BURST
    at: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def spend(self) -> None:
        """Count one call; raises `GRPCError` when it is one too many."""
        now = asyncio.get_running_loop().time()
        self.tokens = min(_BURST, self.tokens + (now - self.at) * _RATE_PER_S)
        self.at = now
        if self.tokens < 1.0:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self.tokens -= 1.0


@dataclass(slots=True, kw_only=True)
class PodResourcesService(podresources_v1.PodResourcesListerBase):
    """Pod resources: no UIDs, no plain init containers, one entry per id."""

    books: DeviceBooks
    known_pods: Callable[[], Iterable[FakePod]]
    active_pods: Callable[[], Iterable[FakePod]]
    get_support: GetSupport
    limit: RateLimit = field(default_factory=RateLimit)

    async def list(
        self,
        message: podresources_v1.ListPodResourcesRequest,  # noqa: ARG002 - the service's signature
    ) -> podresources_v1.ListPodResourcesResponse:
        """Answer for all active pods, after freeing what ended ones held."""
        self.limit.spend()
        pods = tuple(self.active_pods())
        self.books.release_inactive(pod.uid for pod in pods)
        return podresources_v1.ListPodResourcesResponse(
            pod_resources=[self._pod(pod) for pod in pods]
        )

    async def get(
        self, message: podresources_v1.GetPodResourcesRequest
    ) -> podresources_v1.GetPodResourcesResponse:
        """Answer for one pod, ended ones too; what the kubelet lacks, it says in its own way."""
        self.limit.spend()
        if self.get_support is GetSupport.UNIMPLEMENTED:
            raise GRPCError(Status.UNIMPLEMENTED, "unknown method Get")
        if self.get_support is GetSupport.DISABLED:
            _unknown("PodResources API Get method disabled")
        for pod in self.known_pods():
            if (pod.namespace, pod.name) == (message.pod_namespace, message.pod_name):
                return podresources_v1.GetPodResourcesResponse(pod_resources=self._pod(pod))
        return _unknown(f"pod {message.pod_name} in namespace {message.pod_namespace} not found")

    def _pod(self, pod: FakePod) -> podresources_v1.PodResources:
        shown = (c for c in pod.in_start_order if c.is_sidecar or not c.is_init)
        return podresources_v1.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[
                podresources_v1.ContainerResources(
                    name=container.name, devices=[*self._devices(pod.uid, container.name)]
                )
                for container in shown
            ],
        )

    def _devices(self, uid: str, name: str) -> Iterator[podresources_v1.ContainerDevices]:
        return (
            podresources_v1.ContainerDevices(
                resource_name=entry.resource_name,
                device_ids=[slot_id],
                topology=None
                if numa_node < 0
                else podresources_v1.TopologyInfo(
                    nodes=[podresources_v1.NumaNode(id=numa_node)],
                ),
            )
            for entry in self.books.held_by(uid, name)
            for numa_node, slot_ids in entry.slot_ids_by_numa.items()
            for slot_id in self.books.shuffled(slot_ids)
        )


@dataclass(slots=True, kw_only=True)
class PodsService(pods_v1alpha1.PodsBase):
    """The Pods API of 1.37: whole pods, of which ours hold only the metadata."""

    known_pods: Callable[[], Iterable[FakePod]]

    async def list_pods(
        self,
        message: pods_v1alpha1.ListPodsRequest,  # noqa: ARG002 - the service's signature
    ) -> pods_v1alpha1.ListPodsResponse:
        """Answer with all pods."""
        return pods_v1alpha1.ListPodsResponse(
            pods=[encode_pod(pod) for pod in self.known_pods()],
        )


def encode_pod(pod: FakePod) -> bytes:
    """Return the pod as Kubernetes' protobuf."""
    metadata = pods_v1alpha1.ObjectMeta(
        name=pod.name, namespace=pod.namespace, uid=pod.uid, annotations=dict(pod.annotations)
    )
    return bytes(pods_v1alpha1.Pod(metadata=metadata))
