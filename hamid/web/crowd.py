"""How many connections a site holds, and which of them make room for another.

A port that takes everybody, such as the webhook's, is reached by tenants as well, and nobody makes
them ask anything: connections that are only held would use up the process's file descriptors, which
the journal and the API server's watches need. So a site that is full closes idle ones: first those that
never asked, oldest first, then those that asked longest ago.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp.typedefs import Handler, Middleware
    from aiohttp.web_protocol import RequestHandler

log = structlog.get_logger(__name__)


class _Refused(asyncio.Protocol):
    """A connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@dataclass(slots=True, kw_only=True)
class Crowd:
    """The connections of one site.

    Attributes:
        limit: how many it holds at most, once their TLS handshakes are done.
    """

    site_name: str
    limit: int
    _asking: set[RequestHandler] = field(default_factory=set)
    _last_asked: dict[RequestHandler, int] = field(default_factory=dict)
    _turns: Iterator[int] = field(default_factory=count)
    _is_full: bool = False

    def admit(self, server: web.Server) -> asyncio.Protocol:
        """The protocol of one more connection; another one may have to go for it."""
        here = [each for each in server.connections if each.transport is not None]
        surplus = len(here) + 1 - self.limit
        self._note(is_full=surplus > 0)
        if surplus <= 0:
            return server()
        self._last_asked = {
            each: self._last_asked[each] for each in here if each in self._last_asked
        }
        idle = [each for each in here if each not in self._asking]
        idle.sort(key=lambda each: self._last_asked.get(each, -1))
        for each in idle[:surplus]:
            each.force_close()
        return server() if idle else _Refused()

    def watch(self) -> Middleware:
        """The middleware by which it knows who is being answered; goes outermost."""

        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._asking.add(request.protocol)
            try:
                return await handler(request)
            finally:
                self._asking.discard(request.protocol)
                self._last_asked[request.protocol] = next(self._turns)

        return watch

    def _note(self, *, is_full: bool) -> None:
        if is_full and not self._is_full:
            log.warning(
                "site full",
                site=self.site_name,
                connections=self.limit,
                hint="idle connections are closed; see who holds them, or raise web.connection_limit",
            )
        self._is_full = is_full
