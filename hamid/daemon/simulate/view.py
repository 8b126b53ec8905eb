"""What the simulated parts know of the cluster: pods, nodes and quotas as the leader's watches bring them.

The view is fed by `TappedClient` with what the scheduler role's own watches have just taken in.
So whoever acts on it can rely on the extender knowing at least as much: a pod that is tried again
because another one went finds the room.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hamid.aiokit.latest import Latest
from hamid.codec.pod import has_ended
from hamid.kube.client import KubeClient
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS, EventKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from hamid.kube.port import JsonObject, ObjectList, Resource, WatchEvent


class Listener(Protocol):
    """Who wants to know of changes; called in the loop, so quick and without waiting."""

    def took_pod(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """A pod appeared, changed, or is gone (None)."""
        ...

    def took_node(self, before: JsonObject | None, now: JsonObject | None) -> None:
        """A node appeared, changed, or is gone (None)."""
        ...


@dataclass(slots=True, kw_only=True)
class ClusterView:
    """All pods, nodes and quotas.

    Attributes:
        pods: by UID, oldest first.
        nodes: by name.
        quotas: by `namespace/name`; no listener asks for them.
        version: of the newest change of a pod that was taken in.
        progress: grows whenever anything here, or with a listener, has changed.
    """

    pods: dict[str, JsonObject] = field(default_factory=dict)
    nodes: dict[str, JsonObject] = field(default_factory=dict)
    quotas: dict[str, JsonObject] = field(default_factory=dict)
    version: int = 0
    progress: Latest[int] = field(default_factory=lambda: Latest(0))
    listeners: list[Listener] = field(default_factory=list)
    _unreported: set[str] = field(default_factory=set)

    @property
    def has_unreported(self) -> bool:
        """Whether a pod is bound to a node whose kubelet has not yet said how it fares."""
        return bool(self._unreported)

    def tell(self) -> None:
        """Let those who wait look again."""
        self.progress.publish(self.progress.get() + 1)

    async def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait until it holds; asked after each change."""
        await self.progress.wait_for(lambda _: is_true())

    def list(self, resource: Resource, found: ObjectList) -> None:
        """Take these for all there are."""
        known = self._known(resource)
        kept = {_key(resource, item) for item in found.items}
        for key in [key for key in known if key not in kept]:
            self._take(resource, key, None)
        for item in found.items:
            self._take(resource, _key(resource, item), item)
        self._advance(resource, found.resource_version)

    def apply(self, resource: Resource, event: WatchEvent) -> None:
        """Take one change."""
        if event.kind is EventKind.BOOKMARK:
            return
        now = None if event.kind is EventKind.DELETED else event.object
        self._take(resource, _key(resource, event.object), now)
        self._advance(resource, event.object["metadata"]["resourceVersion"])

    def _known(self, resource: Resource) -> dict[str, JsonObject]:
        if resource == PODS:
            return self.pods
        return self.nodes if resource == NODES else self.quotas

    def _take(self, resource: Resource, key: str, now: JsonObject | None) -> None:
        known = self._known(resource)
        before = known.get(key)
        if now is None:
            known.pop(key, None)
        else:
            known[key] = now
        if resource == PODS:
            self._unreported.discard(key)
            if now is not None and self._is_awaited(now):
                self._unreported.add(key)
        for listener in self.listeners if resource in (PODS, NODES) else ():
            take = listener.took_pod if resource == PODS else listener.took_node
            take(before, now)

    def _is_awaited(self, pod: JsonObject) -> bool:
        """Whether there is a kubelet that is to say how the pod fares, and has not."""
        is_on_node = pod["spec"].get("nodeName") in self.nodes
        return is_on_node and is_active(pod) and not is_reported(pod)

    def _advance(self, resource: Resource, resource_version: str) -> None:
        if resource == PODS:
            self.version = max(self.version, int(resource_version))
        self.tell()


class TappedClient(KubeClient):
    """The client of the scheduler role, whose watches of the whole cluster feed the view."""

    view: ClusterView | None = None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        not_older_than: str | None = None,
    ) -> ObjectList:
        """All objects that match."""
        found = await super().list(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            not_older_than=not_older_than,
        )
        if self._is_tapped(resource, namespace, field_selector) and self.view is not None:
            # The caller goes on before anybody who is woken by this.
            self.view.list(resource, found)
        return found

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_s: float = 300.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What happens after the resourceVersion."""
        is_tapped = self._is_tapped(resource, namespace, field_selector)
        stream = super().watch(
            resource,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_s=timeout_s,
        )
        async with aclosing(stream) as events:
            async for event in events:
                yield event
                # Asked for the next one, so the caller has taken this one in.
                if is_tapped and self.view is not None:
                    self.view.apply(resource, event)

    def _is_tapped(
        self, resource: Resource, namespace: str | None, field_selector: str | None
    ) -> bool:
        return (
            resource in (PODS, NODES, RESOURCE_QUOTAS)
            and namespace is None
            and field_selector is None
        )


def is_bound(pod: JsonObject) -> bool:
    """Whether the pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def is_active(pod: JsonObject) -> bool:
    """Whether the pod has neither ended nor is being deleted."""
    return not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def is_reported(pod: JsonObject) -> bool:
    """Whether the pod's kubelet has said how it fares."""
    status = pod.get("status") or {}
    return "containerStatuses" in status or status.get("phase") != "Pending"


def _key(resource: Resource, item: JsonObject) -> str:
    metadata = item["metadata"]
    if resource == RESOURCE_QUOTAS:
        return f"{metadata['namespace']}/{metadata['name']}"
    return str(metadata["uid"] if resource == PODS else metadata["name"])


async def with_patience(
    view: ClusterView, is_true: Callable[[], bool], *, timeout_s: float
) -> bool:
    """Whether it came to hold in the time."""
    try:
        async with asyncio.timeout(timeout_s):
            await view.wait_until(is_true)
    except TimeoutError:
        return False
    return True
