from __future__ import annotations

import asyncio
import ssl

import pytest
from aiohttp import web

from hamid.web.certs import ServerTls
from hamid.web.settings import WebSettings
from tests.web.sites import Pki, client_context, serving

ROOM = 3
ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def hello(_request):
    return web.Response(text="hello")


class Caller:
    """A connection of somebody who asks when told to."""

    @classmethod
    async def of(cls, port, tls=None):
        made = cls()
        made.reader, made.writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
        )
        return made

    async def ask(self):
        self.writer.write(ASK)
        return await self.answer()

    async def answer(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head.split()[1], await self.reader.readexactly(5)

    async def is_left(self):
        """Wait until the server has closed it."""
        return await self.reader.read() == b""


@pytest.fixture
def crowded():
    return WebSettings(connection_limit=ROOM)


async def test_who_never_asked_goes_first_and_the_oldest_of_them(crowded):
    async with serving(web.get("/", hello), settings=crowded) as port:
        silent = [await Caller.of(port) for _ in range(ROOM - 1)]
        asking = await Caller.of(port)
        await asking.ask()  # the server has taken all who came before

        late = await Caller.of(port)

        assert await silent[0].is_left()
        assert await late.ask() == (b"200", b"hello")
        assert await asking.ask() == (b"200", b"hello")
        assert await silent[1].ask() == (b"200", b"hello")


async def test_of_those_that_asked_who_did_so_longest_ago_goes_first(crowded):
    async with serving(web.get("/", hello), settings=crowded) as port:
        callers = [await Caller.of(port) for _ in range(ROOM)]
        for at in (0, 1, 2, 0):
            await callers[at].ask()

        late = await Caller.of(port)

        assert await callers[1].is_left()
        assert await late.ask() == (b"200", b"hello")
        assert await callers[0].ask() == (b"200", b"hello")


async def test_half_a_request_is_none(crowded):
    async with serving(web.get("/", hello), settings=crowded) as port:
        callers = [await Caller.of(port) for _ in range(ROOM)]
        await callers[-1].ask()
        for caller in callers:
            caller.writer.write(ASK[:-2])

        late = await Caller.of(port)

        assert await late.ask() == (b"200", b"hello")
        assert await callers[0].is_left()


async def test_nobody_who_is_being_answered_is_left_for_another(crowded, assert_logged):
    may_answer = asyncio.Event()
    asked = asyncio.Semaphore(0)

    async def slow(_request):
        asked.release()
        await may_answer.wait()
        return web.Response(text="hello")

    async with serving(web.get("/", slow), settings=crowded) as port:
        callers = [await Caller.of(port) for _ in range(ROOM)]
        for caller in callers:
            caller.writer.write(ASK)
            await asked.acquire()

        late = await Caller.of(port)

        assert await late.is_left()
        may_answer.set()
        assert [await caller.answer() for caller in callers] == [(b"200", b"hello")] * ROOM
    assert_logged("site full", log_level="warning")


async def test_however_many_come_no_more_are_held(crowded):
    async with serving(web.get("/", hello), settings=crowded) as port:
        callers = []
        for _ in range(20):
            callers.append(await Caller.of(port))
            await callers[-1].ask()

        assert all([await caller.is_left() for caller in callers[:-ROOM]])
        assert [await c.ask() for c in callers[-ROOM:]] == [(b"200", b"hello")] * ROOM


async def test_it_is_no_other_over_tls(crowded):
    pki = Pki()
    tls = ServerTls()
    tls.load(pki.server_material())
    context = client_context(ca_pem=pki.ca_pem)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with serving(web.get("/", hello), tls=tls, settings=crowded) as port:
        callers = [await Caller.of(port, context) for _ in range(ROOM)]
        for caller in callers:
            await caller.ask()  # by then the server's handshake is done

        late = await Caller.of(port, context)

        assert await late.ask() == (b"200", b"hello")
        assert await callers[0].is_left()
