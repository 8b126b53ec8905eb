"""A node's kubelet towards the API server: takes the pods bound to it, and says how they fare.

The device part (sockets, plugins, slots) is `kubelet.fake`'s, and real. Not imitated: images,
probes, restarts, grace periods, and jobs that end: containers just run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.codec.pod import counted, pod_containers
from hamid.daemon.simulate.view import is_active
from hamid.errors import KubeError
from hamid.kube.errors import NotFound
from hamid.kube.port import NODES, PODS, EventKind, PatchKind
from hamid.kubelet.fake import ContainerState, FakeContainer, FakePod, Phase
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    from hamid.daemon.simulate.nodes import SimulatedNode
    from hamid.kube.port import JsonObject, KubePort, WatchEvent
    from hamid.kubelet.fake import FakeContainerStatus, FakeKubelet, FakePodStatus

log = structlog.get_logger(__name__)

_UP = (ContainerState.RUNNING, ContainerState.COMPLETED)


@dataclass(slots=True, kw_only=True)
class SimulatedKubelet:
    """Runs the pods of one node; a service, and the sink of the watch of its pods."""

    node_name: str
    resource_name: str
    kube: KubePort
    kubelet: FakeKubelet
    _queue: asyncio.Queue[tuple[JsonObject, bool]] = field(default_factory=asyncio.Queue)
    _known: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The service's name."""
        return f"simulated-kubelet-{self.node_name}"

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """Take the node's pods from a list."""
        for pod in objects:
            self._queue.put_nowait((pod, False))

    def apply(self, event: WatchEvent) -> None:
        """Take one event of the node's pods."""
        if event.kind is not EventKind.BOOKMARK:
            self._queue.put_nowait((event.object, event.kind is EventKind.DELETED))

    async def run(self) -> None:
        """Run pods until cancelled, one after another, as a kubelet admits them."""
        while True:
            pod, is_gone = await self._queue.get()
            try:
                await self._take(pod, is_gone=is_gone)
            except NotFound:
                continue  # deleted meanwhile
            except KubeError as error:
                log.warning("pod status not written", node=self.node_name, error=str(error))

    async def _take(self, pod: JsonObject, *, is_gone: bool) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if is_gone or metadata.get("deletionTimestamp"):
            if uid in self._known:
                self._known.discard(uid)
                self.kubelet.remove(uid)
            if not is_gone:
                await self.kube.delete(
                    PODS,
                    metadata["name"],
                    namespace=metadata["namespace"],
                    uid=uid,
                    grace_period_s=0,
                )
        elif uid not in self._known and is_active(pod):
            self._known.add(uid)
            await self._report(pod, await self.kubelet.run_pod(self._fake_pod(pod)))

    def _fake_pod(self, pod: JsonObject) -> FakePod:
        metadata = pod["metadata"]
        containers = tuple(
            FakeContainer(
                name=container.name,
                count=counted(container, self.resource_name),
                is_init=container.kind is ContainerKind.INIT,
                is_sidecar=container.kind is ContainerKind.SIDECAR,
                resource_name=self.resource_name,
            )
            for container in pod_containers(pod)
            if container.kind is not None
        )
        return FakePod(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            containers=containers,
            annotations=metadata.get("annotations") or {},
        )

    async def _report(self, pod: JsonObject, status: FakePodStatus) -> None:
        metadata = pod["metadata"]
        await self.kube.patch(
            PODS,
            metadata["name"],
            {"status": pod_status(pod, status)},
            kind=PatchKind.MERGE,
            namespace=metadata["namespace"],
            subresource="status",
        )


@dataclass(slots=True, kw_only=True)
class NodeStatusWriter:
    """Keeps the resource's amounts in the Node's status as the kubelet counts them; a service."""

    node_name: str
    kube: KubePort
    kubelet: FakeKubelet

    @property
    def name(self) -> str:
        """The service's name."""
        return f"simulated-node-status-{self.node_name}"

    async def run(self) -> None:
        """Write every change until cancelled."""
        async for capacities in self.kubelet.capacities.changes():
            if not capacities:
                continue
            status = {
                "capacity": {name: str(c.capacity) for name, c in capacities.items()},
                "allocatable": {name: str(c.allocatable) for name, c in capacities.items()},
            }
            try:
                await self.kube.patch(
                    NODES,
                    self.node_name,
                    {"status": status},
                    kind=PatchKind.MERGE,
                    subresource="status",
                )
            except KubeError as error:
                log.warning("node status not written", node=self.node_name, error=str(error))


def node_object(node: SimulatedNode) -> JsonObject:
    """The Node as its kubelet registers it; devices come when their plugin has registered."""
    amounts = {
        "cpu": node.cpu,
        "memory": node.memory,
        "ephemeral-storage": "500Gi",
        "pods": "250",
    }
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if node.card_count:
        labels["gpu"] = "on"  # by which HAMi's users mark nodes with cards
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {**labels, **node.labels}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {
                "kubeletVersion": "v1.37.0-simulated",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "simulated",
                "kernelVersion": "simulated",
                "containerRuntimeVersion": "simulated://1",
            },
        },
    }


def pod_status(pod: JsonObject, status: FakePodStatus) -> JsonObject:
    """The status that a kubelet writes, as a merge patch."""
    by_list: dict[str, list[JsonObject]] = {"initContainers": [], "containers": []}
    for container in pod_containers(pod):
        if container.kind is not None:
            found = status.containers[container.name]
            image = pod["spec"][container.list_name][container.index].get("image", "")
            by_list[container.list_name].append(_container(container.name, image, found))
    is_up = all(c.state in _UP for c in status.containers.values())
    phase = status.phase
    if phase is Phase.PENDING and is_up:
        phase = Phase.RUNNING
    ready = "True" if phase is Phase.RUNNING else "False"
    body: JsonObject = {
        "phase": phase.value,
        "reason": status.reason or None,
        "message": status.message or None,
        "containerStatuses": by_list["containers"],
        "conditions": [
            {"type": kind, "status": value}
            for kind, value in (
                ("PodScheduled", "True"),
                ("Initialized", ready),
                ("ContainersReady", ready),
                ("Ready", ready),
            )
        ],
    }
    if by_list["initContainers"]:
        body["initContainerStatuses"] = by_list["initContainers"]
    return body


def _container(name: str, image: str, found: FakeContainerStatus) -> JsonObject:
    match found.state:
        case ContainerState.RUNNING:
            state: JsonObject = {"running": {}}
        case ContainerState.COMPLETED:
            state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        case _:
            state = {"waiting": {"reason": found.state.value, "message": found.message}}
    is_up = found.state in _UP
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": is_up,
        "started": is_up,
        "restartCount": max(0, found.start_count - 1),
        "state": state,
    }
