"""Requests to the API server over aiohttp: deadlines, credentials, repetition, translation.

Repeated here, a bounded number of times: any call on 429, since the server did nothing (except an
eviction, where 429 is the answer); reads on 5xx and on a lost connection, too; any call once on
401, with the credentials read anew. A write whose answer was lost is never repeated: only its
caller can find out what became of it.

kubernetes_asyncio (36.1) has a transport, too, on the same aiohttp. Importing it costs
38 MiB (see `credentials`), and it has aiohttp repeat a PUT or DELETE whose answer was
lost, encodes bodies with `json`, and offers no moment in which a write can still be withheld.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

import aiohttp
import orjson
from aiohttp.payload import BytesPayload
from prometheus_client import CollectorRegistry, Counter

from hamid.aiokit.backoff import Backoff
from hamid.kube.errors import (
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Withheld,
    error_for_reply,
)
from hamid.kube.lines import LineSplitter, LineTooLong

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping

    from aiohttp.abc import AbstractStreamWriter

    from hamid.kube.credentials import Access
    from hamid.kube.port import JsonObject
    from hamid.kube.settings import KubeSettings

JSON_TYPE: Final = "application/json"
# Enough of an error's body to find its Status in.
MAX_ERROR_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One thing asked of the server, however many requests that takes.

    Attributes:
        verb: as RBAC and the audit log call it.
        resource: for metrics, with the subresource.
    """

    verb: str
    resource: str
    path: str
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON_TYPE

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"

    @property
    def is_read(self) -> bool:
        """Whether asking again changes nothing."""
        return self.method == "GET"


@dataclass(slots=True, kw_only=True)
class Transport:
    """One session with one server; made by `Transport.open`.

    Attributes:
        may_write: asked in the moment in which a write goes out.
    """

    access: Access
    settings: KubeSettings
    session: aiohttp.ClientSession
    requests_total: Counter
    may_write: Callable[[], bool] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: KubeSettings, *, registry: CollectorRegistry | None = None
    ) -> AsyncIterator[Self]:
        """A session for the length of the block."""
        access = settings.access(clock=asyncio.get_running_loop().time)
        counter = Counter(
            "hamid_kube_requests_total",
            "Requests to the API server.",
            ("verb", "resource", "code"),
            registry=registry or CollectorRegistry(),
        )
        connector = aiohttp.TCPConnector(limit=100, ssl=access.tls or True)
        async with aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": settings.user_agent, "Accept": JSON_TYPE},
            read_bufsize=256 * 1024,
        ) as session:
            # aiohttp would repeat PUT and DELETE by itself when a kept connection dies, though
            # the server may have done them; there is no public switch. A test watches over it.
            session._retry_connection = False  # noqa: SLF001
            yield cls(access=access, settings=settings, session=session, requests_total=counter)

    async def answer(self, call: Call, *, is_repeated: bool = True) -> JsonObject:
        """The answer, after as many tries as the module says."""
        backoff = Backoff(
            first_s=self.settings.retry_first_wait_s, max_s=self.settings.retry_wait_max_s
        )
        reason: TooManyRequests | Unavailable
        while True:
            try:
                return await self._answer(call)
            except TooManyRequests as error:
                can_repeat, reason = is_repeated, error
            except Unavailable as error:
                can_repeat, reason = call.is_read, error
            wait_s = reason.retry_after_s
            is_over = backoff.failures >= self.settings.retry_count
            if not can_repeat or is_over or wait_s > self.settings.retry_wait_max_s:
                raise reason
            await asyncio.sleep(max(wait_s, backoff.next_delay_s()))

    async def lines(self, call: Call) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on, until the server ends it."""
        splitter = LineSplitter()
        async with self._response(call, quiet_s=self.settings.quiet_timeout_s) as response:
            with _translated(call):
                async for piece in response.content.iter_any():
                    for line in splitter.feed(piece):
                        yield line
        if splitter.pending_bytes:
            raise Unavailable(f"{call}: cut off within a line")

    async def _answer(self, call: Call) -> JsonObject:
        async with self._response(call) as response:
            with _translated(call):
                body = await response.read()
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{call}: {len(body)} bytes that are no JSON") from error
        if not isinstance(answer, dict):
            raise Unavailable(f"{call}: JSON that is no object")
        return answer

    @asynccontextmanager
    async def _response(
        self, call: Call, *, quiet_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to one request, known to be good; on 401 one more with new credentials."""
        try:
            response = await self._request(call, quiet_s=quiet_s)
        except Unauthorized:
            if not self.access.authenticator.expire():
                raise
            response = await self._request(call, quiet_s=quiet_s)
        try:
            yield response
        finally:
            # Drops the connection, unless the answer was read to its end and gave it back.
            response.close()

    async def _request(self, call: Call, *, quiet_s: float | None) -> aiohttp.ClientResponse:
        headers = {"Content-Type": call.content_type} if call.body is not None else {}
        if header := await self.access.authenticator.header():
            headers["Authorization"] = header
        # A watch has no deadline of its own, only one for its start and one for its silence.
        deadline_s = self.settings.request_timeout_s
        total_s = deadline_s if quiet_s is None else None
        body = self._body_of(call)
        code = "none"
        try:
            with _translated(call):
                async with asyncio.timeout(deadline_s):
                    response = await self.session.request(
                        call.method,
                        self.access.server + call.path,
                        params=call.query,
                        data=body,
                        headers=headers,
                        server_hostname=self.access.server_hostname,
                        proxy=self.access.proxy,
                        allow_redirects=False,
                        timeout=aiohttp.ClientTimeout(total=total_s, sock_read=quiet_s),
                    )
                code = str(response.status)
                if response.status < HTTPStatus.MULTIPLE_CHOICES:
                    return response
                async with response:
                    said = await beginning(response.content, MAX_ERROR_BYTES)
        except Unavailable as error:
            if isinstance(body, _GuardedBody) and body.is_withheld:
                raise Withheld(f"{call}: it may no longer be done, and was not sent") from error
            raise
        finally:
            self.requests_total.labels(call.verb, call.resource, code).inc()
        raise error_for_reply(
            response.status, said, call=str(call), retry_after=response.headers.get("Retry-After")
        )

    def _body_of(self, call: Call) -> bytes | _GuardedBody | None:
        if call.body is None or call.is_read or self.may_write is None:
            return call.body
        return _GuardedBody(call.body, may_write=self.may_write)


async def beginning(content: aiohttp.StreamReader, limit: int) -> bytes:
    """The first bytes of a body, in however many pieces they come."""
    pieces = bytearray()
    while len(pieces) < limit and (piece := await content.read(limit - len(pieces))):
        pieces += piece
    return bytes(pieces)


class _GuardedBody(BytesPayload):
    """A body that asks before it is sent. The headers wait for it, and go with it or not at all.

    By then the connection stands, which may have taken as long as the whole deadline.
    """

    def __init__(self, value: bytes, *, may_write: Callable[[], bool]) -> None:
        super().__init__(value)
        self._may_write = may_write
        self.is_withheld = False

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if not self._may_write():
            self.is_withheld = True
            raise ConnectionAbortedError("the guard said no")
        await super().write_with_length(writer, content_length)


@contextmanager
def _translated(call: Call) -> Iterator[None]:
    """Whatever goes wrong with the connection becomes Unavailable."""
    try:
        yield
    except TimeoutError as error:
        raise Unavailable(f"{call}: no answer in time") from error
    except (aiohttp.ClientError, OSError, LineTooLong) as error:
        raise Unavailable(f"{call}: {str(error) or repr(error)}") from error
