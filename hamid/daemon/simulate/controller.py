"""Makes the pods of workloads, and the missing ones again, as their controllers would.

See `workloads` for what is not imitated. A pod that is refused is tried again when its workload
changes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hamid.daemon.simulate.roster import pod_key
from hamid.daemon.simulate.view import is_active
from hamid.daemon.simulate.workloads import workload_pods
from hamid.errors import HamidError
from hamid.kube.errors import AlreadyExists, ApiError, NotFound
from hamid.kube.port import PODS, EventKind, PatchKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hamid.daemon.simulate.roster import Roster
    from hamid.daemon.simulate.view import ClusterView
    from hamid.kube.port import JsonObject, KubePort, Resource, WatchEvent

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class WorkloadController:
    """The controllers of all workloads; a service, and a listener of the view.

    Attributes:
        settle: waits until a pod that was just created has found its place; pods of a workload
            come one after another.
    """

    kube: KubePort
    view: ClusterView
    roster: Roster
    settle: Callable[[JsonObject], Awaitable[None]]
    name: str = "workload-controller"
    _workloads: dict[str, tuple[Resource, JsonObject]] = field(default_factory=dict)
    _asked_for: dict[str, frozenset[str]] = field(default_factory=dict)
    _due: dict[str, None] = field(default_factory=dict)
    _has_due: asyncio.Event = field(default_factory=asyncio.Event)
    _reconciling: asyncio.Lock = field(default_factory=asyncio.Lock)

    def sink(self, resource: Resource) -> WorkloadSink:
        """What the watch of this kind of workload feeds."""
        return WorkloadSink(controller=self, resource=resource)

    async def run(self) -> None:
        """Reconcile what is due, until cancelled."""
        while True:
            await self._has_due.wait()
            await self.step()

    async def step(self) -> None:
        """Reconcile the workload that has been due for longest."""
        if not self._due:
            self._has_due.clear()
            return
        uid = next(iter(self._due))
        del self._due[uid]
        if uid not in self._workloads:
            return
        resource, workload = self._workloads[uid]
        try:
            await self.reconcile(resource, workload)
        except HamidError as error:
            log.warning("workload not reconciled", kind=resource.kind, error=str(error))

    async def reconcile(self, resource: Resource, workload: JsonObject) -> None:
        """Create the pods that are missing, delete those that are too many, and count."""
        uid = workload["metadata"]["uid"]
        # The one who applies a workload waits for its pods; the watch brings it here, too.
        async with self._reconciling:
            wanted = {pod_key(pod): pod for pod in workload_pods(workload)}
            for key in self._asked_for.get(uid, frozenset()) - set(wanted):
                self.roster.forget(key)
            self._asked_for[uid] = frozenset(wanted)
            there = {pod_key(pod): pod for pod in self.view.pods.values() if _owner(pod) == uid}
            for key, pod in wanted.items():
                if key not in there:
                    await self._create(pod)
            for key, pod in there.items():
                if key not in wanted and is_active(pod):
                    await self._delete(pod)
        await self._report(resource, workload)

    def took_pod(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """A pod that is gone is made again; one that came up is counted."""
        pod = now or before
        owner = _owner(pod) if pod is not None else None
        if owner in self._workloads and (
            now is None or before is None or _is_up(before) != _is_up(now)
        ):
            self._want(owner)

    def took_node(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """Nodes are the scheduler's business."""

    def took_workload(self, resource: Resource, workload: JsonObject) -> None:
        """A workload appeared or changed."""
        uid = workload["metadata"]["uid"]
        before = self._workloads.get(uid)
        self._workloads[uid] = (resource, workload)
        if before is None or before[1].get("spec") != workload.get("spec"):
            self._want(uid)

    def lost_workload(self, workload: JsonObject) -> None:
        """A workload is gone; the API server deletes its pods."""
        uid = workload["metadata"]["uid"]
        self._workloads.pop(uid, None)
        for key in self._asked_for.pop(uid, frozenset()):
            self.roster.forget(key)

    def known(self, resource: Resource) -> dict[str, JsonObject]:
        """The workloads of this kind, by UID."""
        return {uid: w for uid, (kind, w) in self._workloads.items() if kind == resource}

    def _want(self, uid: str) -> None:
        self._due[uid] = None
        self._has_due.set()

    async def _create(self, pod: JsonObject) -> None:
        try:
            created = await self.kube.create(PODS, pod)
        except AlreadyExists as error:
            there = next((p for p in self.view.pods.values() if pod_key(p) == pod_key(pod)), None)
            if there is None or _owner(there) != _owner(pod):
                self.roster.refuse(pod, error)
            return
        except ApiError as error:
            self.roster.refuse(pod, error)
            return
        self.roster.admit(created)
        await self.settle(created)

    async def _delete(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        try:
            await self.kube.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except NotFound:
            return

    async def _report(self, resource: Resource, workload: JsonObject) -> None:
        """Write what `kubectl get` shows of it."""
        metadata = workload["metadata"]
        pods = [pod for pod in self.view.pods.values() if _owner(pod) == metadata["uid"]]
        count, up = len(pods), sum(map(_is_up, pods))
        status: JsonObject = {"replicas": count, "readyReplicas": up}
        if resource.kind == "Job":
            status = {"active": count, "ready": up}
        elif resource.kind == "Deployment":
            status |= {"updatedReplicas": count, "availableReplicas": up}
        if (workload.get("status") or {}).items() >= status.items():
            return
        try:
            await self.kube.patch(
                resource,
                metadata["name"],
                {"status": status},
                kind=PatchKind.MERGE,
                namespace=metadata["namespace"],
                subresource="status",
            )
        except NotFound:
            return


@dataclass(slots=True, kw_only=True)
class WorkloadSink:
    """Takes what the watch of one kind of workload brings."""

    controller: WorkloadController
    resource: Resource

    def replace(self, objects: tuple[JsonObject, ...]) -> None:
        """These are all there are."""
        there = {workload["metadata"]["uid"] for workload in objects}
        for uid, workload in self.controller.known(self.resource).items():
            if uid not in there:
                self.controller.lost_workload(workload)
        for workload in objects:
            self.controller.took_workload(self.resource, workload)

    def apply(self, event: WatchEvent) -> None:
        """One change."""
        if event.kind is EventKind.DELETED:
            self.controller.lost_workload(event.object)
        elif event.kind is not EventKind.BOOKMARK:
            self.controller.took_workload(self.resource, event.object)


def _owner(pod: JsonObject) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(o.get("uid")) for o in owners if o.get("controller")), None)


def _is_up(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and is_active(pod)
