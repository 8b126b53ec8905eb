"""A running server with one site, and TLS to go with it; for the tests of this room."""

import ssl
import time
from contextlib import asynccontextmanager

from aiohttp import ClientSession, TCPConnector
from prometheus_client import CollectorRegistry

from hamid.aiokit.services import running
from hamid.web.certs import TlsMaterial, load_into
from hamid.web.middleware import RequestMetrics
from hamid.web.pki import DAY_S, issue_client, issue_server, make_authority
from hamid.web.server import WebServer, WebSite
from hamid.web.settings import WebSettings

NOW_S = time.time()  # noqa: TID251 - OpenSSL compares certificates with the real clock


def make_server(*sites, settings=None, registry=None):
    return WebServer(
        sites=sites,
        metrics=RequestMetrics(registry or CollectorRegistry()),
        clock=time.monotonic,
        settings=settings or WebSettings(),
    )


def make_site(*routes, tls=None, is_private=False, name="test", host="127.0.0.1", port=0):
    return WebSite(name=name, host=host, port=port, routes=routes, tls=tls, is_private=is_private)


@asynccontextmanager
async def serving(*routes, tls=None, settings=None, registry=None):
    """Serve the routes; yields the port."""
    server = make_server(make_site(*routes, tls=tls), settings=settings, registry=registry)
    async with running(server):
        ports = await server.ports.wait_for(bool)
        yield ports["test"]


class Pki:
    """A CA, and what it issues as TLS needs it."""

    def __init__(self, name="test CA"):
        self.authority = make_authority(name, now_s=NOW_S, lifetime_s=DAY_S)

    @property
    def ca_pem(self):
        return self.authority.certificate_pem

    def server_material(self, *, client_ca_pem=b"", names=("localhost", "127.0.0.1")):
        made = issue_server(self.authority, names=names, now_s=NOW_S, lifetime_s=DAY_S)
        return TlsMaterial(
            certificate_pem=made.certificate_pem,
            key_pem=made.key_pem,
            client_ca_pem=client_ca_pem,
        )

    def client_material(self):
        made = issue_client(self.authority, common_name="c", now_s=NOW_S, lifetime_s=DAY_S)
        return TlsMaterial(certificate_pem=made.certificate_pem, key_pem=made.key_pem)


def client_context(*, ca_pem, material=None):
    context = ssl.create_default_context(cadata=ca_pem.decode())
    if material is not None:
        load_into(context, material)
    return context


@asynccontextmanager
async def client(context=None):
    connector = TCPConnector(ssl=context if context is not None else True)
    async with ClientSession(connector=connector) as session:
        yield session
