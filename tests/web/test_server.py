import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from hamid.aiokit.services import running
from hamid.errors import SettingsError
from hamid.web.certs import ServerTls
from hamid.web.server import WebSite, is_loopback
from tests.web.sites import client, make_server, make_site


async def hello(_request):
    return web.Response(text="hello")


async def test_each_site_serves_its_own_routes_only():
    server = make_server(
        make_site(web.get("/a", hello), name="a"), make_site(web.get("/b", hello), name="b")
    )

    async with running(server), client() as session:
        ports = await server.ports.wait_for(bool)
        statuses = {}
        for name, port in ports.items():
            for path in ("/a", "/b"):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    statuses[name, path] = response.status

    assert statuses == {("a", "/a"): 200, ("a", "/b"): 404, ("b", "/a"): 404, ("b", "/b"): 200}


async def test_a_site_on_every_address_is_reached_by_either_kind():
    server = make_server(make_site(web.get("/", hello), host="0.0.0.0"))

    async with running(server), client() as session:
        port = (await server.ports.wait_for(bool))["test"]
        for host in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            async with session.get(f"http://{host}:{port}/") as response:
                assert await response.text() == "hello"


async def test_an_address_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = make_server(make_site(web.get("/", hello), host="0.0.0.0", port=port))

        with pytest.raises(SettingsError, match=f"cannot listen on 0.0.0.0:{port}"):
            await server.run()


async def test_stopping_lets_a_request_finish_and_takes_no_new_one():
    began, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_request):
        began.set()
        await may_end.wait()
        return web.Response(text="finished")

    async def ask(port):
        async with client() as session, session.get(f"http://127.0.0.1:{port}/") as response:
            return await response.text()

    server = make_server(make_site(web.get("/", slow)))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.run())
        port = (await server.ports.wait_for(bool))["test"]
        asking = group.create_task(ask(port))
        await began.wait()

        serving.cancel()
        await server.ports.wait_for(lambda ports: not ports)
        await asyncio.sleep(0)
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask(port)
        may_end.set()

    assert asking.result() == "finished"
    assert serving.cancelled()


async def test_a_port_that_is_taken_is_an_error_that_says_so():
    first = make_server(make_site(web.get("/", hello)))
    async with running(first):
        port = (await first.ports.wait_for(bool))["test"]
        second = make_server(
            WebSite(name="late", host="127.0.0.1", port=port, routes=[web.get("/", hello)])
        )

        with pytest.raises(SettingsError, match=f"'late' cannot listen on 127.0.0.1:{port}"):
            await second.run()


@pytest.mark.parametrize(
    ("host", "tls", "is_allowed"),
    [
        pytest.param("127.0.0.1", None, True, id="loopback needs no proof"),
        pytest.param("::1", None, True, id="nor does loopback of IPv6"),
        pytest.param("0.0.0.0", None, False, id="plain HTTP to the network is refused"),
        pytest.param("10.0.0.1", ServerTls(), False, id="TLS alone tells us nothing of callers"),
        pytest.param("::", ServerTls(wants_client_certificate=True), True, id="mutual TLS does"),
    ],
)
def test_a_private_site_is_never_open_to_the_network(host, tls, is_allowed):
    def build():
        return WebSite(name="extender", host=host, port=1, routes=(), tls=tls, is_private=True)

    if is_allowed:
        build()
    else:
        with pytest.raises(SettingsError, match="'extender'"):
            build()


def test_a_host_name_that_is_not_localhost_counts_as_reachable():
    assert is_loopback("localhost")
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("::ffff:10.0.0.1")
    assert not is_loopback("gpu-node-1")
