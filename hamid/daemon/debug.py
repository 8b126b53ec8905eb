"""What a person or a monitor asks the daemon: /healthz, /readyz, /metrics and /debug/*."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hamid import __version__
from hamid.web.errors import Refusal
from hamid.web.responses import json_body
from hamid.web.server import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from hamid.daemon.conditions import Conditions


@dataclass(slots=True, kw_only=True)
class DebugPages:
    """The routes of the debug site; roles add what they can tell.

    Args:
        pages: name → a function that returns what `/debug/<name>` shows.
        is_open: show them to callers from other machines, too.
    """

    registry: CollectorRegistry
    conditions: Conditions
    pages: dict[str, Callable[[], Any]] = field(default_factory=dict)
    is_open: bool = False

    def routes(self) -> tuple[web.RouteDef, ...]:
        """All routes."""
        return (
            web.get("/", self._index),
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
            web.get("/debug", self._index),
            web.get("/debug/", self._index),
            web.get("/debug/{page}", self._page),
        )

    async def _index(self, _request: web.Request) -> web.Response:
        pages = [f"/debug/{name}" for name in sorted({*self.pages, "tasks"})]
        return _json({"hamid": __version__, "pages": ["/healthz", "/readyz", "/metrics", *pages]})

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        conditions = self.conditions.look()
        is_ready = all(condition.is_true for condition in conditions.values())
        body = {
            "ready": is_ready,
            "conditions": {
                name: {"true": c.is_true, "reason": c.reason, "since": _iso(c.since_s)}
                for name, c in conditions.items()
            },
        }
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _json(body, status=status)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _page(self, request: web.Request) -> web.Response:
        assert_near(request, what="/debug answers", is_open=self.is_open)
        name = request.match_info["page"]
        if name == "tasks":
            return _json(_tasks())
        page = self.pages.get(name)
        if page is None:
            raise web.HTTPNotFound(text=f"no page {name!r}")
        return _json(page())


def assert_near(request: web.Request, *, what: str, is_open: bool) -> None:
    """Refuse who asks from another machine, unless the pages are open to them.

    Raises:
        Refusal: with what to do.
    """
    if not (is_open or is_loopback(request.remote or "")):
        raise Refusal(
            f"{what} callers on this machine only",
            hint="use kubectl port-forward, or set addresses.debug_is_open",
            status=HTTPStatus.FORBIDDEN,
        )


def _json(value: Any, *, status: int = HTTPStatus.OK) -> web.Response:
    option = (
        orjson.OPT_INDENT_2
        | orjson.OPT_SORT_KEYS
        | orjson.OPT_NON_STR_KEYS
        | orjson.OPT_APPEND_NEWLINE
    )
    return json_body(orjson.dumps(value, default=_plain, option=option), status=status)


def _plain(value: object) -> object:
    """What orjson does not know: sets in order, mappings of any kind, anything else as text."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return dict(value) if isinstance(value, Mapping) else str(value)


def _tasks() -> list[Mapping[str, str]]:
    return [
        {"name": task.get_name(), "waits_in": _place(task)}
        for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    ]


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost function of ours that the task waits in, and the line."""
    place, awaited = "", task.get_coro()
    while awaited is not None:
        frame = _of_any_kind(awaited, "frame")
        if frame is not None:
            code, module = frame.f_code, frame.f_globals.get("__name__", "")
            if not place or module.startswith("hamid."):
                place = f"{module}.{code.co_qualname}:{frame.f_lineno}"
        awaited = _of_any_kind(awaited, "await")
    return place


def _of_any_kind(awaited: object, attribute: str) -> Any:
    """The attribute of a coroutine (`cr_…`) or an async generator (`ag_…`); else None."""
    found = getattr(awaited, f"cr_{attribute}", None)
    return found if found is not None else getattr(awaited, f"ag_{attribute}", None)


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
