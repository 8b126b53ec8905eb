"""gRPC over unix sockets, both ways: servers that close for good, calls that fail in our words.

Knows grpclib, and nothing of what is said over it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from typing import TYPE_CHECKING, Self, TypeVar

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.server import Server

from hamid.kubelet.errors import CallFailed, CannotListen, NotServed, SocketGone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from pathlib import Path

    from grpclib.protocol import H2Protocol

T = TypeVar("T")

SocketIdentity = tuple[int, int, int]
"""Device, inode and change time of a socket file: an inode alone is used again."""


def socket_identity(path: Path) -> SocketIdentity | None:
    """What tells this socket file from a later one at the same path; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


class _TrackingServer(Server):
    """grpclib's server, which also remembers its connections.

    Its own `close` leaves them open, so that the peer of a cancelled stream never learns of it,
    and since Python 3.12 `wait_closed` would wait for the peer.
    """

    def __init__(self, services: Collection[object]) -> None:
        super().__init__(services)  # type: ignore[arg-type]  # generated services lack its protocol
        self._protocols: weakref.WeakSet[H2Protocol] = weakref.WeakSet()

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self._protocols.add(protocol)
        return protocol

    def drop_connections(self) -> None:
        """Close every connection that was made."""
        for protocol in tuple(self._protocols):
            if hasattr(protocol, "processor"):  # absent until the connection is up
                protocol.processor.close("the server was closed")


class UnixServer:
    """A gRPC server on a unix socket of mode 0600; closed, it has dropped all connections."""

    def __init__(self, path: Path, server: _TrackingServer) -> None:
        self.path = path
        self._server = server

    @classmethod
    async def open(cls, path: Path, services: Collection[object]) -> Self:
        """Serve on a new socket file, in place of an old one; raises `CannotListen`."""
        listener = _listen(path)
        server = _TrackingServer(services)
        await server.start(sock=listener)
        return cls(path, server)

    async def close(self) -> None:
        """Stop serving, drop the connections, and wait for the calls to end."""
        self._server.close()
        self._server.drop_connections()
        await self._server.wait_closed()

    def unlink(self) -> None:
        """Remove the socket file, if it is still there."""
        self.path.unlink(missing_ok=True)


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode that the socket has when it is bound: no window of 0777.
        # asyncio's own way would also delete the file on close since 3.13, which is ours to say.
        listener.setblocking(False)  # noqa: FBT003 - the name of the call says what is false
        os.fchmod(listener.fileno(), 0o600)
        path.unlink(missing_ok=True)
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise CannotListen(
            f"cannot listen on {path}: {error.strerror or error}",
            hint="the directory must exist, be writable, and its path be under 80 characters;"
            " set the kubelet's directories if this node has others",
        ) from error
    return listener


class UnixClient:
    """Calls to one unix socket: connects when needed, again after a loss, each with a deadline."""

    def __init__(self, path: Path, *, peer: str, timeout_s: float) -> None:
        self.path = path
        self._peer = peer
        self._timeout_s = timeout_s
        self._channel: Channel | None = None

    async def call(self, what: str, act: Callable[[Channel], Awaitable[T]]) -> T:
        """Return what the call returns; third-party errors leave as `KubeletError`."""
        if self._channel is None:
            self._channel = Channel(path=str(self.path))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await act(self._channel)
        except TimeoutError as error:
            raise CallFailed(
                f"{what}: {self._peer} gave no answer within {self._timeout_s:g} s",
                hint="it is overloaded or stuck; see the kubelet's log",
            ) from error
        except (OSError, StreamTerminatedError, ProtocolError) as error:
            self.close()  # a half-dead connection is not used again
            raise SocketGone(
                f"{what}: {self._peer} is not reachable on {self.path}: {error}",
                hint="it is restarting, or its directory is another one; see the settings",
            ) from error
        except GRPCError as error:
            raise _translate(what, self._peer, error) from error

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _translate(what: str, peer: str, error: GRPCError) -> CallFailed | NotServed | SocketGone:
    message = (error.message or "no reason given")[:256]
    if error.status is Status.UNIMPLEMENTED:
        return NotServed(
            f"{what}: {peer} does not serve this call", hint="its version lacks it; do without"
        )
    if error.status is Status.UNAVAILABLE:
        return SocketGone(f"{what}: {peer} went away: {message}", hint="try again")
    return CallFailed(
        f"{what}: {peer} answered {error.status.name}: {message}", hint="see the kubelet's log"
    )
