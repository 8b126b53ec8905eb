"""A node's kubelet for the simulation: takes the pods bound to it, and reports how they fare.

The fake kubelet does the device part over real sockets; this part stands between it and the API
server. Not imitated: images, probes, restarts, and jobs that end: containers just run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.codec.pod import pod_containers
from hamid.errors import KubeError
from hamid.kube.port import PODS, EventKind, PatchKind
from hamid.kubelet.fake import ContainerState, FakeContainer, FakePod, Phase
from hamid.model.request import ContainerKind

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hamid.kube.port import JsonObject, KubePort, WatchEvent
    from hamid.kubelet.fake import FakeKubelet, FakePodStatus

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class SimulatedKubelet:
    """Runs the pods of one node; a service, and the sink of their watch."""

    node_name: str
    resource_name: str
    kube: KubePort
    kubelet: FakeKubelet
    queue: asyncio.Queue[JsonObject]
    on_change: Callable[[], None]
    _known: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The service's name."""
        return f"simulated-kubelet-{self.node_name}"

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """Take the node's pods from a list."""
        for pod in objects:
            self.queue.put_nowait(pod)

    def apply(self, event: WatchEvent) -> None:
        """Take one event of the node's pods."""
        if event.kind in (EventKind.ADDED, EventKind.MODIFIED):
            self.queue.put_nowait(event.object)

    async def run(self) -> None:
        """Run pods until cancelled, one after another, as a kubelet admits them."""
        while True:
            pod = await self.queue.get()
            try:
                await self._take(pod)
            except KubeError as error:
                log.warning("pod status not written", node=self.node_name, error=str(error))

    async def _take(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if metadata.get("deletionTimestamp"):
            if uid in self._known:
                self._known.discard(uid)
                self.kubelet.remove(uid)
            await self.kube.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=uid, grace_period_s=0
            )
            self.on_change()
        elif uid not in self._known and not _is_terminal(pod):
            self._known.add(uid)
            await self._report(pod, await self.kubelet.run_pod(self._fake_pod(pod)))

    def _fake_pod(self, pod: JsonObject) -> FakePod:
        metadata = pod["metadata"]
        containers = tuple(
            FakeContainer(
                name=container.name,
                count=int(container.limits.get(self.resource_name, 0)),
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
        states = {name: container.state for name, container in status.containers.items()}
        is_up = all(
            s in (ContainerState.RUNNING, ContainerState.COMPLETED) for s in states.values()
        )
        phase = status.phase
        if phase is Phase.PENDING and is_up:
            phase = Phase.RUNNING
        by_list: dict[str, list[JsonObject]] = {"initContainers": [], "containers": []}
        for container in pod_containers(pod):
            if container.kind is not None and container.name in states:
                by_list[container.list_name].append(
                    _container_status(
                        container.name, status.containers[container.name].message, states
                    )
                )
        ready = "True" if phase is Phase.RUNNING else "False"
        body = {
            "phase": phase.value,
            "reason": status.reason or None,
            "message": status.message or None,
            "initContainerStatuses": by_list["initContainers"],
            "containerStatuses": by_list["containers"],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": ready},
                {"type": "Ready", "status": ready},
            ],
        }
        metadata = pod["metadata"]
        await self.kube.patch(
            PODS,
            metadata["name"],
            {"status": body},
            kind=PatchKind.MERGE,
            namespace=metadata["namespace"],
            subresource="status",
        )
        self.on_change()


def _container_status(name: str, message: str, states: dict[str, ContainerState]) -> JsonObject:
    state = states[name]
    match state:
        case ContainerState.RUNNING:
            detail: JsonObject = {"running": {}}
        case ContainerState.COMPLETED:
            detail = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        case _:
            detail = {"waiting": {"reason": state.value, "message": message}}
    is_ready = state in (ContainerState.RUNNING, ContainerState.COMPLETED)
    return {"name": name, "ready": is_ready, "restartCount": 0, "state": detail}


def _is_terminal(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
