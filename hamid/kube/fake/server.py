"""The fake served over HTTP or HTTPS by aiohttp: URLs and bodies ↔ the verbs of `FakeApi`."""

from __future__ import annotations

import base64
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import orjson
import yaml
from aiohttp import web

from hamid.kube.errors import ApiError, Invalid, NotFound, Unauthorized
from hamid.kube.fake import discovery
from hamid.kube.fake.answers import (
    MethodNotAllowed,
    UnsupportedMediaType,
    body_of,
    json_answer,
    refusal,
    success,
)
from hamid.kube.fake.api import FakeApi
from hamid.kube.fake.table import table
from hamid.kube.fake.values import Dropped, Selection, Target
from hamid.kube.port import PODS, EventKind, PatchKind

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hamid.kube.fake.catalog import ServedResource
    from hamid.kube.fake.faults import Faults, RequestLog
    from hamid.kube.port import JsonObject

# /api/v1/… or /apis/GROUP/VERSION/…, the namespace if any, resource, name, subresource.
_OBJECT_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?/?"
)
_ROOT_PATH: Final = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/?")
# Of namespaces themselves: `/api/v1/namespaces/NAME/status` is no resource in a namespace.
_OWN_SUBRESOURCES: Final = frozenset({"status", "finalize"})
WATCH_DEFAULT_S: Final = 1800.0
MAX_BODY_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """What a URL points to."""

    served: ServedResource
    namespace: str | None
    name: str | None
    subresource: str | None


@dataclass(slots=True, kw_only=True)
class FakeApiServer:
    """A `FakeApi` on a socket; made by `FakeApiServer.serve`.

    Attributes:
        api: the server's inside.
        url: where it listens.
        tokens: token → identity. While there are any, a request without one of them is
            answered 401, unless it has a client certificate.
        authority: PEM text of who signed the certificate, for kubeconfigs.
    """

    api: FakeApi
    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    authority: str | None = None

    @classmethod
    @asynccontextmanager
    async def serve(
        cls,
        api: FakeApi | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        authority: str | None = None,
    ) -> AsyncIterator[Self]:
        """Serve for the length of the block, on a free port unless one is given."""
        server = cls(api=api or FakeApi(), authority=authority)
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", server.answer)
        # Watches last: they end when their clients go, and at the end they are not waited for.
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.01, handler_cancellation=True
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=tls)
            await site.start()
            bound_port = runner.addresses[0][1]
            server.url = f"{'https' if tls else 'http'}://{host}:{bound_port}"
            yield server
        finally:
            await runner.cleanup()

    @property
    def faults(self) -> Faults:
        """What is to go wrong."""
        return self.api.faults

    @property
    def requests(self) -> RequestLog:
        """What was asked."""
        return self.api.requests

    def write_kubeconfig(self, path: Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig for this server; returns its path."""
        cluster: JsonObject = {"server": self.url}
        if self.authority is not None:
            cluster["certificate-authority-data"] = base64.b64encode(
                self.authority.encode()
            ).decode()
        # kubectl asks for a name and password when a user is nobody.
        user = {"token": token or "anyone"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request, errors as a Status."""
        try:
            caller = self._caller(request)
            return self._discovered(request) or await self._routed(request, caller)
        except ApiError as error:
            return refusal(error)
        except Dropped:
            _cut(request)
            return web.Response()  # into the void

    def _caller(self, request: web.Request) -> str:
        """Who asks: client certificate, token, else the User-Agent."""
        certificate = request.get_extra_info("peercert")
        if certificate:
            names = dict(pair for part in certificate["subject"] for pair in part)
            return str(names.get("commonName", ""))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token in self.tokens:
            return self.tokens[token]
        if self.tokens:
            raise Unauthorized("Unauthorized")
        return request.headers.get("User-Agent", "")

    def _discovered(self, request: web.Request) -> web.Response | None:
        """The answer if it is discovery that is asked for."""
        catalog, path = self.api.catalog, request.path.rstrip("/")
        if path in {"/healthz", "/livez", "/readyz"}:
            return web.Response(text="ok")
        fixed: dict[str, Callable[[], JsonObject]] = {
            "/version": lambda: discovery.version_info(self.api.features),
            "/api": discovery.api_versions,
            "/apis": lambda: discovery.api_groups(catalog),
            "/openapi/v3": lambda: discovery.openapi_index(catalog),
        }
        if path in fixed:
            return json_answer(fixed[path]())
        is_openapi = path.startswith("/openapi/v3/")
        root = _ROOT_PATH.fullmatch(path.removeprefix("/openapi/v3"))
        if root is None:
            return None
        group, version = root["group"] or "", root["version"]
        resources = discovery.api_resources(catalog, group, version)
        if resources is None:
            raise NotFound("the server could not find the requested resource")
        document = discovery.openapi_document(catalog, group, version)
        return json_answer(document if is_openapi else resources)

    async def _routed(self, request: web.Request, caller: str) -> web.StreamResponse:
        address = self._address(request.path)
        target = Target(
            resource=address.served.resource,
            namespace=address.namespace,
            name=address.name,
            subresource=address.subresource,
            caller=caller,
            is_dry_run=request.query.get("dryRun") == "All",
        )
        match request.method:
            case "GET":
                return await self._read(request, target)
            case "POST":
                return await self._post(request, target)
            case "PUT":
                return json_answer(await self.api.update(target, await body_of(request)))
            case "PATCH":
                return await self._patch(request, target)
            case "DELETE":
                return await self._delete(request, target)
        raise MethodNotAllowed(f"the server does not allow {request.method} on this resource")

    def _address(self, path: str) -> _Address:
        match = _OBJECT_PATH.fullmatch(path)
        if match is None:
            raise NotFound("the server could not find the requested resource")
        parts = match.groupdict()
        group, version = parts["group"] or "", parts["version"]
        namespace, plural, name = parts["namespace"], parts["plural"], parts["name"]
        subresource = parts["subresource"]
        if namespace is not None and plural in _OWN_SUBRESOURCES and name is None:
            namespace, plural, name, subresource = None, "namespaces", namespace, plural
        served = self.api.catalog.find(group, version, plural)
        if served is None or (subresource and not _has_subresource(served, subresource)):
            raise NotFound("the server could not find the requested resource")
        return _Address(served=served, namespace=namespace, name=name, subresource=subresource)

    async def _read(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        is_watch = query.get("watch") in {"1", "true"}
        if target.name is not None and not is_watch:
            item = await self.api.get(target)
            return json_answer(self._as_asked(request, target, item))
        selection = Selection(
            labels=query.get("labelSelector"),
            fields=query.get("fieldSelector"),
            limit=int(query.get("limit") or 0),
            continue_token=query.get("continue", ""),
            is_streamed=query.get("sendInitialEvents") in {"1", "true"},
        )
        if is_watch:
            return await self._watch(request, target, selection)
        page = await self.api.list(target, selection)
        if _wants_table(request):
            answer = self._table(request, target, page.items, page.version)
        else:
            resource = target.resource
            # Items of a list do not say what they are, as in the real server's answer.
            items = [
                {name: part for name, part in item.items() if name not in {"kind", "apiVersion"}}
                for item in page.items
            ]
            answer = {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": {"resourceVersion": str(page.version)},
                "items": items,
            }
        if page.continue_token:
            answer["metadata"]["continue"] = page.continue_token
        return json_answer(answer)

    async def _watch(
        self, request: web.Request, target: Target, selection: Selection
    ) -> web.StreamResponse:
        query = request.query
        if selection.is_streamed and not self.api.features.has_streamed_lists:
            raise Invalid("sendInitialEvents: Forbidden: it needs the feature gate WatchList")
        watching = self.api.watching(
            target,
            selection,
            since=query.get("resourceVersion", ""),
            timeout_s=float(query.get("timeoutSeconds") or WATCH_DEFAULT_S),
        )
        wants_bookmarks = query.get("allowWatchBookmarks") in {"1", "true"}
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        async with watching as events:
            await response.prepare(request)
            try:
                async for kind, item in events:
                    if kind is not EventKind.BOOKMARK or wants_bookmarks:
                        await response.write(self._line(request, target, kind, item))
            except Dropped:
                # Half an event, then the end of the connection without the end of the body.
                await response.write(b'{"type":"MODIFIED","object":{"kind":"')
                _cut(request)
                return response
        await response.write_eof()
        return response

    def _line(
        self, request: web.Request, target: Target, kind: EventKind, item: JsonObject
    ) -> bytes:
        value = item if kind is EventKind.BOOKMARK else self._as_asked(request, target, item)
        return orjson.dumps({"type": kind.value, "object": value}) + b"\n"

    def _as_asked(self, request: web.Request, target: Target, item: JsonObject) -> JsonObject:
        if not _wants_table(request):
            return item
        return self._table(request, target, [item], int(item["metadata"]["resourceVersion"]))

    def _table(
        self, request: web.Request, target: Target, items: list[JsonObject], version: int
    ) -> JsonObject:
        return table(
            items,
            kind=target.resource.kind,
            version=version,
            now_s=self.api.clock(),
            has_whole_objects=request.query.get("includeObject") == "Object",
        )

    async def _post(self, request: web.Request, target: Target) -> web.Response:
        body = await body_of(request)
        if target.resource == PODS and target.subresource == "binding":
            await self.api.bind(target, body)
            return json_answer(success(201), code=201)
        if target.resource == PODS and target.subresource == "eviction":
            await self.api.evict(target, body)
            return json_answer(success(201), code=201)
        if target.name is not None:
            raise MethodNotAllowed("the server does not allow this method on this resource")
        if body.get("kind", target.resource.kind) != target.resource.kind:
            raise Invalid(f"the object is a {body['kind']}, not a {target.resource.kind}")
        created = await self.api.create(target, body)
        return json_answer(self._as_asked(request, target, created), code=201)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        try:
            kind = PatchKind(request.content_type)
        except ValueError as error:
            raise UnsupportedMediaType(f"no patch is of type {request.content_type}") from error
        text = await request.read()
        try:
            patch = yaml.safe_load(text) if kind is PatchKind.APPLY else orjson.loads(text)
        except (yaml.YAMLError, orjson.JSONDecodeError) as error:
            raise Invalid(f"the patch cannot be read: {error}") from error
        return json_answer(
            self._as_asked(request, target, await self.api.patch(target, patch, kind))
        )

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = await body_of(request) if request.can_read_body else {}
        grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
        if target.name is None:
            selection = Selection(
                labels=request.query.get("labelSelector"),
                fields=request.query.get("fieldSelector"),
            )
            await self.api.delete_collection(target, selection)
            return json_answer(success(200))
        uid = (options.get("preconditions") or {}).get("uid")
        left = await self.api.delete(target, uid=uid, grace_s=None if grace is None else int(grace))
        return json_answer(success(200) if left is None else left)


def _cut(request: web.Request) -> None:
    """End the connection, after what was written, without a word."""
    if request.transport is not None:
        request.transport.close()


def _has_subresource(served: ServedResource, name: str) -> bool:
    return (name == "status" and served.has_status) or any(
        name == known for known, _ in served.subresources
    )


def _wants_table(request: web.Request) -> bool:
    return "as=Table" in request.headers.get("Accept", "").split(",")[0].replace(" ", "")
