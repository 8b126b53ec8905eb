"""The Kubernetes API over HTTP: KubePort as requests of a transport.

What is asked and what is understood stands here; how it travels is `transport`'s.
Objects are parsed by orjson and handed out as they are.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from urllib.parse import quote

import orjson

from hamid.kube.errors import QUOTE_CHARS, Conflict, NotFound, Unavailable, error_for_status
from hamid.kube.port import (
    PODS,
    EventKind,
    ObjectList,
    PatchKind,
    ServerVersion,
    WatchEvent,
)
from hamid.kube.transport import Call, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    from prometheus_client import CollectorRegistry

    from hamid.kube.port import JsonObject, PatchBody, Resource
    from hamid.kube.settings import KubeSettings

FIRST_WITH_EVICTION_V1: Final = ServerVersion(major=1, minor=22)
# A watch that delivers a thousand events at once must not keep the loop from everything else.
EVENTS_BETWEEN_YIELDS: Final = 64
_DOTS: Final = frozenset({".", ".."})
# Below, `list` is a method.
Items: TypeAlias = "list[JsonObject]"


@dataclass(slots=True, kw_only=True)
class KubeClient:
    """KubePort on a real server; made by `KubeClient.open`."""

    transport: Transport
    page_size: int
    field_manager: str
    _version: ServerVersion | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: KubeSettings, *, registry: CollectorRegistry | None = None
    ) -> AsyncIterator[Self]:
        """A client for the length of the block; the registry gets its request counter."""
        async with Transport.open(settings, registry=registry) as transport:
            yield cls(
                transport=transport,
                page_size=settings.page_size,
                field_manager=settings.user_agent,
            )

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None
    ) -> JsonObject:
        """One object."""
        return await self.transport.answer(
            Call(verb="get", resource=resource.label, path=_path(resource, namespace, name))
        )

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        not_older_than: str | None = None,
    ) -> ObjectList:
        """All objects that match, page by page; `Gone` if the list expires between two of them."""
        query = _selection(label_selector, field_selector)
        if not_older_than is not None:
            query["resourceVersion"] = not_older_than
        path = _path(resource, namespace)
        call = Call(verb="list", resource=resource.label, path=path, query=query)
        items: Items = []
        page = await self._page(call, items, "")
        while token := page["metadata"].get("continue"):
            page = await self._page(call, items, token)
        for item in items:
            # Items of a list lack what every other answer has.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return ObjectList(items=tuple(items), resource_version=page["metadata"]["resourceVersion"])

    async def _page(self, call: Call, items: Items, token: str) -> JsonObject:
        query = {**call.query, "limit": str(self.page_size)}
        if token:
            query["continue"] = token
            query.pop("resourceVersion", None)  # the server refuses both at once
        page = await self.transport.answer(
            Call(verb=call.verb, resource=call.resource, path=call.path, query=query)
        )
        found = page.get("items") or []
        if not (_has_version(page) and _is_list_of_objects(found)):
            raise Unavailable(f"{call}: an answer that is no list")
        items.extend(found)
        return page

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
        """The events after the resourceVersion, until the server ends the watch."""
        query = _selection(label_selector, field_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_s))),
        }
        call = Call(
            verb="watch", resource=resource.label, path=_path(resource, namespace), query=query
        )
        async with aclosing(self.transport.lines(call)) as lines:
            count = 0
            async for line in lines:
                yield _event(line, call=call)
                count += 1
                if count % EVENTS_BETWEEN_YIELDS == 0:
                    await asyncio.sleep(0)

    async def create(
        self, resource: Resource, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """Create the object."""
        namespace = namespace or body.get("metadata", {}).get("namespace")
        return await self.transport.answer(
            Call(
                verb="create",
                resource=resource.label,
                path=_path(resource, namespace),
                method="POST",
                body=orjson.dumps(body),
            )
        )

    async def replace(
        self, resource: Resource, body: JsonObject, *, subresource: str | None = None
    ) -> JsonObject:
        """Replace the object."""
        metadata = body["metadata"]
        path = _path(resource, metadata.get("namespace"), metadata["name"], subresource)
        return await self.transport.answer(
            Call(
                verb="update",
                resource=_label(resource, subresource),
                path=path,
                method="PUT",
                body=orjson.dumps(body),
            )
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: PatchBody,
        *,
        kind: PatchKind,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> JsonObject:
        """Change the object; an apply patch takes over fields that others own."""
        query = {} if field_manager is None else {"fieldManager": field_manager}
        if kind is PatchKind.APPLY:
            query = {"fieldManager": self.field_manager, "force": "true"} | query
        return await self.transport.answer(
            Call(
                verb="patch",
                resource=_label(resource, subresource),
                path=_path(resource, namespace, name, subresource),
                method="PATCH",
                query=query,
                body=orjson.dumps(patch),
                content_type=kind.value,
            )
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_s: int | None = None,
    ) -> None:
        """Delete the object, dependants in the background."""
        body = _delete_options(uid, grace_period_s)
        body["propagationPolicy"] = "Background"
        await self.transport.answer(
            Call(
                verb="delete",
                resource=resource.label,
                path=_path(resource, namespace, name),
                method="DELETE",
                body=orjson.dumps(body),
            )
        )

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
        """Bind the pod and merge the annotations into it: one request, or two on old servers."""
        if not (await self.version()).has_binding_uid_check:
            found = await self.get(PODS, name, namespace=namespace)
            if found["metadata"]["uid"] != uid:
                raise Conflict(f"pod {namespace}/{name} has uid {found['metadata']['uid']}")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "annotations": dict(annotations),
                "labels": dict(labels or {}),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self.transport.answer(
            Call(
                verb="create",
                resource="pods/binding",
                path=_path(PODS, namespace, name, "binding"),
                method="POST",
                body=orjson.dumps(body),
            )
        )

    async def evict(
        self, *, namespace: str, name: str, uid: str | None = None, is_dry_run: bool = False
    ) -> None:
        """Evict the pod; before 1.22 the API of evictions has another name."""
        is_v1 = await self.version() >= FIRST_WITH_EVICTION_V1
        # Webhooks learn of a dry run from the query, and older servers from the options alone.
        dry_run = {"dryRun": "All"} if is_dry_run else {}
        options = _delete_options(uid, None) | ({"dryRun": ["All"]} if is_dry_run else {})
        body = {
            "apiVersion": "policy/v1" if is_v1 else "policy/v1beta1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": options,
        }
        await self.transport.answer(
            Call(
                verb="create",
                resource="pods/eviction",
                path=_path(PODS, namespace, name, "eviction"),
                method="POST",
                query=dry_run,
                body=orjson.dumps(body),
            ),
            is_repeated=False,
        )

    def within(self, deadline_s: float) -> KubeClient:
        """A client of the same session, with a deadline of its own for each request."""
        settings = replace(self.transport.settings, request_timeout_s=deadline_s)
        return replace(self, transport=replace(self.transport, settings=settings))

    def guarded(self, may_write: Callable[[], bool]) -> KubeClient:
        """A client of the same session that asks before each write is sent."""
        return replace(self, transport=replace(self.transport, may_write=may_write))

    async def version(self) -> ServerVersion:
        """The server's version, asked for once."""
        if self._version is None:
            answer = await self.transport.answer(
                Call(verb="get", resource="version", path="/version")
            )
            self._version = _version(answer)
        return self._version

    async def serves(self, resource: Resource) -> bool:
        """Whether discovery lists the resource."""
        call = Call(verb="get", resource="discovery", path=resource.root)
        try:
            answer = await self.transport.answer(call)
        except NotFound:
            return False
        served = answer.get("resources") or []
        if not _is_list_of_objects(served):
            raise Unavailable(f"{call}: an answer that lists no resources")
        return any(entry.get("name") == resource.plural for entry in served)


def _event(line: bytes, *, call: Call) -> WatchEvent:
    try:
        event = orjson.loads(line)
        kind, value = event["type"], event["object"]
        if kind == "ERROR":
            message, code = str(value.get("message")), int(value.get("code") or 500)
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError, KeyError) as error:
        raise Unavailable(f"{call}: a line of {len(line)} bytes that is no event") from error
    if kind == "ERROR":
        raise error_for_status(code, value, message=f"{call}: {message[:QUOTE_CHARS]}")
    if kind not in tuple(EventKind):
        raise Unavailable(f"{call}: an event of unknown type {kind!r}")
    if not _has_version(value):
        raise Unavailable(f"{call}: an event about what is no object")
    return WatchEvent(kind=EventKind(kind), object=value)


def _is_list_of_objects(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(entry, dict) for entry in found)


def _has_version(item: Any) -> bool:
    """Whether it is an object, or list of objects, as the API has them."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("resourceVersion"), str)


def _selection(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    query = {}
    if label_selector is not None:
        query["labelSelector"] = label_selector
    if field_selector is not None:
        query["fieldSelector"] = field_selector
    return query


def _delete_options(uid: str | None, grace_period_s: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    return options


def _path(
    resource: Resource,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """The path, with names escaped: one with a slash must not reach another object.

    Neither must one that says "the folder above", and cannot be escaped; no object has it.
    """
    if _DOTS & {namespace, name}:
        raise NotFound(f"{resource.label} {name!r}: no object has such a name")
    return resource.path(
        None if namespace is None else quote(namespace, safe=""),
        None if name is None else quote(name, safe=":"),
        subresource=subresource,
    )


def _label(resource: Resource, subresource: str | None) -> str:
    return resource.label if subresource is None else f"{resource.label}/{subresource}"


def _version(answer: JsonObject) -> ServerVersion:
    """The version in an answer; providers write a minor of `27+` and a `v1.27.4-eks-1a2b`."""
    match = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(answer.get("gitVersion")))
    if match is not None:
        major, minor, patch = (int(part) for part in match.groups())
        return ServerVersion(major=major, minor=minor, patch=patch)
    numbers = re.match(r"(\d+) (\d+)", f"{answer.get('major')} {answer.get('minor')}")
    if numbers is None:
        raise Unavailable("get /version: an answer without a version")
    return ServerVersion(major=int(numbers[1]), minor=int(numbers[2]))
