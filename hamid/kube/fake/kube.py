"""KubePort on the fake server, in the process: no sockets, no wall clock.

What it does not imitate: a write that was given up at its deadline is never done.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hamid.kube.errors import Conflict, NotFound, Unavailable, Withheld
from hamid.kube.fake.api import FakeApi
from hamid.kube.fake.store import copied
from hamid.kube.fake.values import Dropped, Selection, Target
from hamid.kube.port import PODS, ObjectList, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping

    from hamid.kube.fake.faults import Faults, RequestLog
    from hamid.kube.port import JsonObject, PatchBody, PatchKind, Resource, ServerVersion


@dataclass(slots=True, kw_only=True)
class FakeKube:
    """One client of a `FakeApi`; many may share one.

    Attributes:
        api: a server of its own unless one is given.
        caller: what its requests are counted as.
        may_write: asked before each write.
        deadline_s: how long it waits for an answer; None waits for ever.
    """

    api: FakeApi = field(default_factory=FakeApi)
    caller: str = "hamid"
    may_write: Callable[[], bool] | None = None
    deadline_s: float | None = None

    @property
    def faults(self) -> Faults:
        """What is to go wrong with the server."""
        return self.api.faults

    @property
    def requests(self) -> RequestLog:
        """What the server was asked, by all its clients."""
        return self.api.requests

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None
    ) -> JsonObject:
        """One object."""
        target = self._target(resource, namespace, name)
        async with self._asking():
            return _copy(await self.api.get(target))

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        not_older_than: str | None = None,  # noqa: ARG002 - the fake has no cache that could be older
    ) -> ObjectList:
        """All objects that match, in one page."""
        selection = Selection(labels=label_selector, fields=field_selector)
        async with self._asking():
            page = await self.api.list(self._target(resource, namespace), selection)
        items = tuple(_copy(item) for item in page.items)
        return ObjectList(items=items, resource_version=str(page.version))

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
        """The events after the resourceVersion."""
        watching = self.api.watching(
            self._target(resource, namespace),
            Selection(labels=label_selector, fields=field_selector),
            since=resource_version,
            timeout_s=timeout_s,
        )
        with _translated():
            async with watching as events:
                async for kind, item in events:
                    yield WatchEvent(kind=kind, object=_copy(item))

    async def create(
        self, resource: Resource, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """Create the object."""
        namespace = namespace or (body.get("metadata") or {}).get("namespace")
        async with self._writing():
            return _copy(await self.api.create(self._target(resource, namespace), _copy(body)))

    async def replace(
        self, resource: Resource, body: JsonObject, *, subresource: str | None = None
    ) -> JsonObject:
        """Replace the object."""
        metadata = body["metadata"]
        target = self._target(
            resource, metadata.get("namespace"), metadata["name"], subresource=subresource
        )
        async with self._writing():
            return _copy(await self.api.update(target, _copy(body)))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: PatchBody,
        *,
        kind: PatchKind,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,  # noqa: ARG002 - who owns a field is not kept
    ) -> JsonObject:
        """Change the object."""
        target = self._target(resource, namespace, name, subresource=subresource)
        async with self._writing():
            return _copy(await self.api.patch(target, copied(patch), kind))

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        """Delete the object, or begin to."""
        target = self._target(resource, namespace, name)
        async with self._writing():
            await self.api.delete(target, uid=uid, grace_s=grace_period_s)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node_name: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Bind the pod and merge the annotations into it, as the real client does."""
        if not self.api.features.server_version.has_binding_uid_check:
            found = await self.get(PODS, name, namespace=namespace)
            if found["metadata"]["uid"] != uid:
                raise Conflict(f"pod {namespace}/{name} has uid {found['metadata']['uid']}")
        binding = {
            "metadata": {
                "name": name,
                "uid": uid,
                "annotations": dict(annotations),
                "labels": dict(labels or {}),
            },
            "target": {"kind": "Node", "name": node_name},
        }
        async with self._writing():
            await self.api.bind(self._target(PODS, namespace, name, subresource="binding"), binding)

    async def evict(
        self, *, namespace: str, name: str, uid: str | None = None, is_dry_run: bool = False
    ) -> None:
        """Evict the pod."""
        target = self._target(PODS, namespace, name, subresource="eviction")
        options: JsonObject = {"preconditions": {"uid": uid}} if uid is not None else {}
        if is_dry_run:
            options["dryRun"] = ["All"]
        async with self._writing():
            await self.api.evict(target, {"deleteOptions": options})

    def within(self, deadline_s: float) -> FakeKube:
        """Another client of the same server, that waits so long."""
        return replace(self, deadline_s=deadline_s)

    def guarded(self, may_write: Callable[[], bool]) -> FakeKube:
        """Another client of the same server, that asks before each write."""
        return replace(self, may_write=may_write)

    async def version(self) -> ServerVersion:
        """The version that the server imitates."""
        return self.api.features.server_version

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has the resource."""
        try:
            self.api.catalog.of(resource)
        except NotFound:
            return False
        return True

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        with _translated():
            async with asyncio.timeout(self.deadline_s):
                yield

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        if self.may_write is not None and not self.may_write():
            raise Withheld("the guard said no")
        async with self._asking():
            yield

    def _target(
        self,
        resource: Resource,
        namespace: str | None = None,
        name: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Target:
        return Target(
            resource=resource,
            namespace=namespace if resource.is_namespaced else None,
            name=name,
            subresource=subresource,
            caller=self.caller,
        )


def _copy(item: JsonObject) -> JsonObject:
    result: JsonObject = copied(item)
    return result


@contextmanager
def _translated() -> Iterator[None]:
    """A dead connection, or one over which nothing comes, as the real client tells of it."""
    try:
        yield
    except Dropped as error:
        raise Unavailable("the connection was cut") from error
    except TimeoutError as error:
        raise Unavailable("no answer in time") from error
