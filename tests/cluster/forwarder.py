"""A TCP forwarder in a thread: stands for kube-proxy, which this cluster does not have."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Self


class Forwarder:
    """Forwards connections from an address of its own to `target`, which may change.

    A connection once made stays where it leads, as with kube-proxy.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self.target: tuple[str, int] = ("127.0.0.1", 9)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._forward, self._host, 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(reader, to_writer))
            both.create_task(_pump(to_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
