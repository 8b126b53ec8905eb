"""An extender that says yes at once: what kube-scheduler pays for having one at all.

Plain HTTP on loopback, the shortest way there is: filter gives back the names that came,
prioritize scores nothing, and kube-scheduler binds by itself.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import orjson

_LENGTH: Final = b"content-length: "


class YesSayer(asyncio.Protocol):
    """One connection of kube-scheduler's."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a whole request is there."""
        self._received += data
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        length = int(head[at:].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._received = rest[length:]
        answer = self._answer(head, orjson.loads(rest[:length]))
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(answer), answer)
        )

    def _answer(self, head: bytes, args: dict[str, Any]) -> bytes:
        if head.startswith(b"POST /filter "):
            return orjson.dumps({"NodeNames": args["NodeNames"]})
        return orjson.dumps([{"Host": name, "Score": 0} for name in args["NodeNames"]])


async def main() -> None:
    """Serve on a port of the system's choice, named on stdout, until ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(YesSayer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
