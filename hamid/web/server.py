"""The web server: several sites, each with its own address, routes and way of knowing callers.

Invariants:

1. A private site cannot be built open to the network: it asks for client certificates, or
   listens on loopback only.
2. While stopping, no new connection is taken, and requests that are being served may finish
   within `drain_s`.
3. Nobody takes all file descriptors by holding connections: see `crowd`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from aiohttp import web

from hamid.aiokit.farewell import last_words
from hamid.aiokit.latest import Latest
from hamid.errors import SettingsError
from hamid.web.crowd import Crowd
from hamid.web.middleware import errors_as_json, timing
from hamid.web.settings import WebSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hamid.web.certs import ServerTls
    from hamid.web.middleware import RequestMetrics

log = structlog.get_logger(__name__)

EVERY_ADDRESS: Final = "0.0.0.0"
"""As Kubernetes' own programs mean it: also those of IPv6, where the machine has any."""

_CLEANUP_GRACE_S = 2.0
_HANDSHAKE_S: Final = 10.0
_KEEP_ALIVE_S: Final = 120.0
"""Longer than Go's clients keep a connection that they do not use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSite:
    """One listening address and what it serves.

    Attributes:
        name: for logs and metrics.
        port: 0 lets the system choose; see `WebServer.ports`.
        tls: None serves plain HTTP.
        is_private: whether the routes may only be called by whom we know.
    """

    name: str
    host: str
    port: int
    routes: Sequence[web.AbstractRouteDef]
    tls: ServerTls | None = None
    is_private: bool = False

    def __post_init__(self) -> None:
        knows_callers = self.tls is not None and self.tls.wants_client_certificate
        if self.is_private and not knows_callers and not is_loopback(self.host):
            raise SettingsError(
                f"the site {self.name!r} would let anybody who reaches {self.host}:{self.port} "
                "call it",
                hint="turn mutual TLS on for it, or let it listen on 127.0.0.1",
            )


@dataclass(slots=True, kw_only=True)
class WebServer:
    """Serves all sites for as long as it runs.

    Attributes:
        ports: the port each site listens on, by name; empty until all listen.
    """

    sites: Sequence[WebSite]
    metrics: RequestMetrics
    clock: Callable[[], float]
    settings: WebSettings = field(default_factory=WebSettings)
    ports: Latest[Mapping[str, int]] = field(default_factory=lambda: Latest({}))
    name: str = "web-server"

    async def run(self) -> None:
        """Listen until cancelled, then drain."""
        async with AsyncExitStack() as stack:
            crowds = {site.name: self._crowd(site) for site in self.sites}
            runners = [(self._runner(site, crowds[site.name]), site) for site in self.sites]
            for runner, site in runners:
                stack.push_async_callback(self._drain, runner, site.name)
            # Popped first: no site takes new calls while another one drains.
            stack.push_async_callback(_stop_listening, [runner for runner, _ in runners])
            self.ports.publish(
                {site.name: await _listen(r, site, crowds[site.name]) for r, site in runners}
            )
            stack.callback(self.ports.publish, {})
            await asyncio.Event().wait()

    def _crowd(self, site: WebSite) -> Crowd:
        return Crowd(site_name=site.name, limit=self.settings.connection_limit)

    def _runner(self, site: WebSite, crowd: Crowd) -> web.AppRunner:
        app = web.Application(
            client_max_size=self.settings.body_limit_bytes,
            middlewares=(
                crowd.watch(),
                timing(self.metrics, site=site.name, clock=self.clock),
                errors_as_json(site=site.name, deadline_s=self.settings.deadline_s),
            ),
        )
        app.add_routes(site.routes)
        return web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=self.settings.drain_s,
            keepalive_timeout=_KEEP_ALIVE_S,
        )

    async def _drain(self, runner: web.AppRunner, site_name: str) -> None:
        await last_words(
            runner.cleanup(),
            what=f"drain the site {site_name}",
            timeout_s=self.settings.drain_s + _CLEANUP_GRACE_S,
        )


class _Listener(web.BaseSite):
    """Listens for one site and lets a crowd see who comes."""

    def __init__(self, runner: web.AppRunner, site: WebSite, crowd: Crowd) -> None:
        super().__init__(runner, ssl_context=site.tls.context if site.tls is not None else None)
        self._site = site
        self._crowd = crowd

    @property
    def name(self) -> str:
        return self._site.name

    async def start(self) -> None:
        await super().start()
        server = cast("web.Server", self._runner.server)  # the runner is set up
        self._server = await asyncio.get_running_loop().create_server(
            partial(self._crowd.admit, server),
            **_address(self._site),
            ssl=self._ssl_context,
            ssl_handshake_timeout=None if self._ssl_context is None else _HANDSHAKE_S,
            backlog=self._backlog,
        )


async def _listen(runner: web.AppRunner, site: WebSite, crowd: Crowd) -> int:
    await runner.setup()
    try:
        await _Listener(runner, site, crowd).start()
    except OSError as error:
        raise SettingsError(
            f"the site {site.name!r} cannot listen on {site.host}:{site.port}: {error.strerror}",
            hint="free the port, or set another address for this site",
        ) from error
    port: int = runner.addresses[0][1]
    log.info("site opened", site=site.name, host=site.host, port=port, is_tls=site.tls is not None)
    return port


def _address(site: WebSite) -> dict[str, Any]:
    if site.host != EVERY_ADDRESS or not socket.has_dualstack_ipv6():
        return {"host": site.host, "port": site.port}
    family = socket.AF_INET6
    return {"sock": socket.create_server(("::", site.port), family=family, dualstack_ipv6=True)}


async def _stop_listening(runners: Sequence[web.AppRunner]) -> None:
    for runner in runners:
        for listener in tuple(runner.sites):
            await listener.stop()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A site on `::` sees callers by IPv4 as ::ffff:127.0.0.1.
    mapped = address.ipv4_mapped if address.version == 6 else None  # noqa: PLR2004 - IPv6
    return (mapped or address).is_loopback
